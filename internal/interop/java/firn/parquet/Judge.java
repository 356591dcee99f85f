package firn.parquet;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Writes and reads Parquet files with parquet-java. Each line of standard input is a JSON request, each line of standard output the answer, an object with
 * "error" where it failed; requests and answers are those of internal/interop/matrix/judge.py.
 */
public final class Judge {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Judge() {}

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
      System.out.flush();
    }
  }

  private static Map<String, Object> answer(JsonNode job) {
    try {
      if (job.get("do").asText().equals("write")) {
        new Writing(job.get("encoding").asText(), job.get("version").asInt(), job.get("codec").asText()).all(texts(job.get("from")), texts(job.get("to")));
        return Map.of();
      }
      return new Reading(texts(job.get("files")), job.path("kept").asBoolean()).facts(job.path("found").asBoolean());
    } catch (Throwable e) {
      return Map.of("error", e.toString() + (e.getCause() == null ? "" : ": " + e.getCause()));
    }
  }

  private static List<String> texts(JsonNode list) {
    List<String> out = new ArrayList<>();
    list.forEach(n -> out.add(n.asText()));
    return out;
  }
}
