package firn.interop;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.net.URLDecoder;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.CatalogHandlers;
import org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode;
import org.apache.iceberg.rest.RESTSerializers;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;

/** The routes of an Iceberg REST catalog that clients need for tables, on Iceberg's own handlers: what they accept, the reference accepts. */
final class RestCatalog {
  private final JdbcCatalog catalog;
  private final ObjectMapper json = new ObjectMapper();

  RestCatalog(JdbcCatalog catalog) {
    this.catalog = catalog;
    json.setVisibility(PropertyAccessor.FIELD, Visibility.ANY);
    json.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    json.setPropertyNamingStrategy(new PropertyNamingStrategies.KebabCaseStrategy());
    RESTSerializers.registerAll(json);
  }

  /** Answers one request under /v1/. */
  void handle(HttpExchange exchange) throws IOException {
    int code = 200;
    Object answer;
    try {
      answer = route(exchange);
      code = answer == null ? 204 : 200;
    } catch (Exception e) {
      code = code(e);
      answer = ErrorResponse.builder().responseCode(code).withType(e.getClass().getSimpleName()).withMessage(String.valueOf(e.getMessage())).build();
    }
    LakeServer.answer(exchange, code, answer == null ? null : json.writeValueAsBytes(answer));
  }

  private Object route(HttpExchange exchange) throws IOException {
    String method = exchange.getRequestMethod();
    String[] path = exchange.getRequestURI().getRawPath().substring(1).split("/");
    byte[] body = exchange.getRequestBody().readAllBytes();
    if (path.length == 2 && path[1].equals("config")) {
      return ConfigResponse.builder().build();
    }
    if (path.length == 2 && path[1].equals("namespaces")) {
      return method.equals("GET")
          ? CatalogHandlers.listNamespaces(catalog, Namespace.empty())
          : CatalogHandlers.createNamespace(catalog, json.readValue(body, CreateNamespaceRequest.class));
    }
    if (path.length == 3) {
      if (method.equals("DELETE")) {
        CatalogHandlers.dropNamespace(catalog, namespace(path[2]));
        return null;
      }
      Object found = CatalogHandlers.loadNamespace(catalog, namespace(path[2]));
      return method.equals("HEAD") ? null : found;
    }
    if (path.length == 4 && path[3].equals("register")) {
      return CatalogHandlers.registerTable(catalog, namespace(path[2]), json.readValue(body, RegisterTableRequest.class));
    }
    if (path.length == 4 && path[3].equals("tables")) {
      return method.equals("GET")
          ? CatalogHandlers.listTables(catalog, namespace(path[2]))
          : create(namespace(path[2]), json.readValue(body, CreateTableRequest.class));
    }
    if (path.length == 5 && path[3].equals("tables")) {
      return table(method, TableIdentifier.of(namespace(path[2]), URLDecoder.decode(path[4], UTF_8)), body);
    }
    if (path.length == 6 && path[5].equals("metrics")) {
      return null;
    }
    throw new NoSuchTableException("No route %s %s", method, exchange.getRequestURI());
  }

  private Object table(String method, TableIdentifier table, byte[] body) throws IOException {
    switch (method) {
      case "POST":
        return CatalogHandlers.updateTable(catalog, table, json.readValue(body, UpdateTableRequest.class));
      case "DELETE":
        CatalogHandlers.dropTable(catalog, table);
        return null;
      case "HEAD":
        CatalogHandlers.tableExists(catalog, table);
        return null;
      default:
        return CatalogHandlers.loadTable(catalog, table, SnapshotMode.ALL);
    }
  }

  private Object create(Namespace namespace, CreateTableRequest request) {
    return request.stageCreate()
        ? CatalogHandlers.stageTableCreate(catalog, namespace, request)
        : CatalogHandlers.createTable(catalog, namespace, request);
  }

  private static Namespace namespace(String text) {
    return Namespace.of(URLDecoder.decode(text, UTF_8).split("\u001f"));
  }

  private static int code(Throwable e) {
    if (e instanceof CommitFailedException || e instanceof AlreadyExistsException) {
      return 409;
    }
    if (e instanceof NoSuchTableException || e instanceof NoSuchNamespaceException) {
      return 404;
    }
    boolean bad = e instanceof IllegalArgumentException || e instanceof ValidationException || e instanceof BadRequestException;
    return bad ? 400 : 500;
  }
}
