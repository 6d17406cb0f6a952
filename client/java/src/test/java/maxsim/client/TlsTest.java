package maxsim.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import com.sun.net.httpserver.HttpsConfigurator;
import com.sun.net.httpserver.HttpsServer;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import maxsim.client.MaxsimException.Code;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Checks to which servers the client speaks over TLS. */
public class TlsTest {
  private static final char[] PASSWORD = "password".toCharArray();

  @Rule public final TemporaryFolder folder = new TemporaryFolder();

  private final List<String> tokens = new CopyOnWriteArrayList<>();

  /** Makes a key and a certificate for a host, such as {@code ip:127.0.0.1}. */
  private KeyStore newKey(String host) throws Exception {
    Path file = folder.getRoot().toPath().resolve("key.p12");
    Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
    Process process =
        new ProcessBuilder(
                keytool.toString(), "-genkeypair", "-alias", "server", "-keyalg", "EC", "-dname", "CN=server", "-ext",
                "san=" + host, "-keystore", file.toString(), "-storepass", new String(PASSWORD))
            .redirectErrorStream(true)
            .start();
    String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(printed, 0, process.waitFor());
    KeyStore keys = KeyStore.getInstance("PKCS12");
    try (InputStream from = Files.newInputStream(file)) {
      keys.load(from, PASSWORD);
    }
    return keys;
  }

  /** Writes the certificate as a file for {@link MaxsimClientBuilder#caFile}. */
  private Path writeCertificate(KeyStore keys) throws Exception {
    String base64 = Base64.getMimeEncoder().encodeToString(keys.getCertificate("server").getEncoded());
    String pem = "-----BEGIN CERTIFICATE-----\n" + base64 + "\n-----END CERTIFICATE-----\n";
    return Files.writeString(folder.getRoot().toPath().resolve("ca.pem"), pem);
  }

  /** Starts a server at 127.0.0.1 that adds the token of each request to {@code tokens}. */
  private HttpsServer start(KeyStore keys) throws Exception {
    KeyManagerFactory managers = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    managers.init(keys, PASSWORD);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(managers.getKeyManagers(), null, null);
    HttpsServer server = HttpsServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), 0), 0);
    server.setHttpsConfigurator(new HttpsConfigurator(context));
    server.createContext(
        "/",
        exchange -> {
          tokens.add(exchange.getRequestHeaders().getFirst("authorization"));
          exchange.sendResponseHeaders(200, -1);
          exchange.close();
        });
    server.start();
    return server;
  }

  private static MaxsimClientBuilder clientOf(HttpsServer server) {
    return MaxsimClient.builder("https://127.0.0.1:" + server.getAddress().getPort()).token("secret");
  }

  @Test
  public void aServerWithACertificateOfCaFileGetsTheTokenAndOthersDoNot() throws Exception {
    KeyStore keys = newKey("ip:127.0.0.1");
    HttpsServer server = start(keys);
    try {
      assertTrue(clientOf(server).caFile(writeCertificate(keys)).build().health().isReady());
      assertEquals(List.of("Bearer secret"), tokens);
      // Java's own authorities have not signed the certificate.
      MaxsimException error = assertThrows(MaxsimException.class, clientOf(server).build()::health);
      assertEquals(Code.UNAVAILABLE, error.code());
      assertEquals(1, tokens.size());
    } finally {
      server.stop(0);
    }
  }

  @Test
  public void aCertificateForAnotherHostIsRefused() throws Exception {
    KeyStore keys = newKey("dns:other.example");
    HttpsServer server = start(keys);
    try {
      MaxsimClient client = clientOf(server).caFile(writeCertificate(keys)).build();
      MaxsimException error = assertThrows(MaxsimException.class, client::health);
      assertEquals(Code.UNAVAILABLE, error.code());
      assertTrue(error.getMessage(), error.getMessage().contains("127.0.0.1"));
      assertEquals(List.of(), tokens);
    } finally {
      server.stop(0);
    }
  }
}
