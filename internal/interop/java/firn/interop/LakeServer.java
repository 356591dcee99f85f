package firn.interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * One JVM that tests talk to over HTTP: an Iceberg REST catalog under /v1/ on a JDBC catalog, and commands of Iceberg's own library under /do. README.md
 * beside this file lists them. It prints "ready PORT" and ends with its standard input, so that it never outlives the test.
 */
public final class LakeServer {
  static final ObjectMapper JSON = new ObjectMapper();
  private static final int THREADS = 16;

  private final JdbcCatalog catalog;

  private LakeServer(JdbcCatalog catalog) {
    this.catalog = catalog;
  }

  /** Takes the catalog's properties as key=value; "name" is the catalog's name in the database. */
  public static void main(String[] args) throws IOException {
    Map<String, String> properties = new HashMap<>();
    for (String arg : args) {
      int at = arg.indexOf('=');
      properties.put(arg.substring(0, at), arg.substring(at + 1));
    }
    properties.putIfAbsent("io-impl", "org.apache.iceberg.io.ResolvingFileIO");
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.setConf(new Configuration());
    catalog.initialize(properties.getOrDefault("name", "default"), properties);

    LakeServer server = new LakeServer(catalog);
    RestCatalog rest = new RestCatalog(catalog);
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    HttpServer http = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    http.setExecutor(threads);
    http.createContext("/v1/", rest::handle);
    http.createContext("/do", server::handle);
    http.start();
    System.out.println("ready " + http.getAddress().getPort());
    while (System.in.read() >= 0) {
      // the parent writes nothing: only the end of the stream counts
    }
    Runtime.getRuntime().halt(0);
  }

  private void handle(HttpExchange exchange) throws IOException {
    Object answer;
    int code = 200;
    try {
      JsonNode command = JSON.readTree(exchange.getRequestBody());
      String[] name = command.get("table").asText().split("\\.");
      answer = run(command, TableIdentifier.of(name));
    } catch (Exception | StackOverflowError e) {
      code = 422;
      answer = Map.of("error", e.getClass().getSimpleName() + ": " + e.getMessage());
    }
    answer(exchange, code, JSON.writeValueAsBytes(answer));
  }

  private Object run(JsonNode command, TableIdentifier name) throws IOException {
    switch (command.get("do").asText()) {
      case "read":
        return CoreReader.read(catalog.loadTable(name), command.path("ref").asText("main"));
      case "check":
        return MetadataCheck.check(catalog.loadTable(name));
      case "upsert":
        return EqualityDeletes.commit(catalog.loadTable(name), command);
      case "create":
        return TableState.create(catalog, name, command);
      case "delete":
        return PositionDeletes.commit(catalog.loadTable(name), command);
      case "health":
        return TableState.health(catalog.loadTable(name));
      case "rows":
        return TableState.rows(catalog.loadTable(name), command);
      case "reachable":
        return TableState.reachable(catalog.loadTable(name));
      case "properties":
        return new LinkedHashMap<>(catalog.loadTable(name).properties());
      default:
        throw new IllegalArgumentException("no command " + command.get("do"));
    }
  }

  static void answer(HttpExchange exchange, int code, byte[] body) throws IOException {
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    if (body == null || exchange.getRequestMethod().equals("HEAD")) {
      exchange.sendResponseHeaders(code, -1);
    } else {
      exchange.sendResponseHeaders(code, body.length);
      exchange.getResponseBody().write(body);
    }
    exchange.close();
  }
}
