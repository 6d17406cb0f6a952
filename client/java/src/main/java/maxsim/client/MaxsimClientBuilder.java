package maxsim.client;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.function.Supplier;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Options of a {@link MaxsimClient}. Not thread-safe. */
public final class MaxsimClientBuilder {
  static final Duration MAX_TIMEOUT = Duration.ofDays(365); // far below the limits of long

  private final String url;
  private final boolean isHttps;
  private final Map<String, String> headers = new LinkedHashMap<>();
  private Supplier<String> token;
  private boolean allowPlaintextToken;
  private Duration timeout = Duration.ofSeconds(30);
  private RetryPolicy retry = RetryPolicy.DEFAULT;
  private Path caFile;
  private HttpClient httpClient;

  MaxsimClientBuilder(String url) {
    URI parsed;
    try {
      parsed = URI.create(url);
    } catch (IllegalArgumentException e) {
      throw wrongUrl(url, e);
    }
    if (parsed.getRawUserInfo() != null) {
      throw new IllegalArgumentException("url has a user name before the host, which is never sent; use token");
    }
    isHttps = "https".equalsIgnoreCase(parsed.getScheme());
    boolean isHttp = isHttps || "http".equalsIgnoreCase(parsed.getScheme());
    if (!isHttp || parsed.getHost() == null || parsed.getRawQuery() != null || parsed.getRawFragment() != null) {
      throw wrongUrl(url, null);
    }
    this.url = url.replaceAll("/+$", "");
  }

  private static IllegalArgumentException wrongUrl(String url, Throwable cause) {
    String rule = "must be an http or https URL without a query, such as http://localhost:7071";
    return new IllegalArgumentException("url is " + url + "; " + rule + "; no _ in the host's name", cause);
  }

  /** Sends this bearer token with every request. Without https, also call {@link #allowPlaintextToken}. */
  public MaxsimClientBuilder token(String token) {
    checkToken(token);
    this.token = () -> token;
    return this;
  }

  /**
   * Sends the bearer token that the supplier returns. The client calls the supplier before each attempt, possibly in
   * several threads at once, so it must be thread-safe and must not block for long.
   */
  public MaxsimClientBuilder token(Supplier<String> token) {
    this.token = Objects.requireNonNull(token, "token");
    return this;
  }

  /**
   * Allows a token without https. Everyone between client and server can then read the token. Use this only if both
   * are on one machine, or if the network itself encrypts.
   */
  public MaxsimClientBuilder allowPlaintextToken() {
    this.allowPlaintextToken = true;
    return this;
  }

  /** Sets the time for one request with all its attempts and waits. Default 30 s; at most 365 days. */
  public MaxsimClientBuilder timeout(Duration timeout) {
    this.timeout = checkTimeout(timeout);
    return this;
  }

  /** Sets when failed requests are tried again. Default {@link RetryPolicy#DEFAULT}. */
  public MaxsimClientBuilder retry(RetryPolicy retry) {
    this.retry = Objects.requireNonNull(retry, "retry");
    return this;
  }

  /**
   * Trusts the certificates of this file, in the format PEM, and no others. {@link #build} reads it. Default: those
   * that Java trusts.
   */
  public MaxsimClientBuilder caFile(Path caFile) {
    this.caFile = Objects.requireNonNull(caFile, "caFile");
    return this;
  }

  /** Tells the server which client sends a request, for fairness between clients (header x-client-id). */
  public MaxsimClientBuilder clientId(String clientId) {
    return header("x-client-id", clientId);
  }

  /**
   * Adds a header to every request. Throws IllegalArgumentException, which does not show the value, if HTTP does not
   * allow the header, and for {@code Authorization}: use {@link #token}, which checks that the token is encrypted.
   */
  public MaxsimClientBuilder header(String name, String value) {
    if (name.equalsIgnoreCase("authorization")) {
      throw new IllegalArgumentException("header " + name + " cannot be set; use token");
    }
    try {
      HttpRequest.newBuilder().header(name, "any");
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("header " + name + " cannot be sent: " + e.getMessage(), e);
    }
    try {
      HttpRequest.newBuilder().header(name, value);
    } catch (IllegalArgumentException e) {
      // The message of the JDK's exception shows the value, which may be a secret. So it is not kept as the cause.
      throw new IllegalArgumentException("header " + name + " has a value with characters that HTTP does not allow");
    }
    headers.put(name, value);
    return this;
  }

  /**
   * Makes requests with this client of the JDK, which you can configure with a proxy, an executor or a client
   * certificate. It must not follow redirects, because the token might then go to another server. {@link
   * MaxsimClient#close} does not close it.
   */
  public MaxsimClientBuilder httpClient(HttpClient httpClient) {
    this.httpClient = Objects.requireNonNull(httpClient, "httpClient");
    return this;
  }

  /** Returns the client. Opens no connection. Throws IllegalArgumentException if options are wrong together. */
  public MaxsimClient build() {
    if (token != null && !isHttps && !allowPlaintextToken) {
      throw new IllegalArgumentException(
          "token would be sent in the clear to " + url + "; use https, or allowPlaintextToken to allow it");
    }
    if (caFile != null && httpClient != null) {
      throw new IllegalArgumentException("caFile and httpClient are both given; give httpClient the SSLContext");
    }
    if (caFile != null && !isHttps) {
      throw new IllegalArgumentException("caFile is " + caFile + ", but the url is " + url + "; must be https");
    }
    HttpClient client = httpClient == null ? newHttpClient() : httpClient;
    return new MaxsimClient(new Transport(url, token, Map.copyOf(headers), retry, client), timeout);
  }

  private HttpClient newHttpClient() {
    // The server speaks HTTP/1.1. Java's default would send a useless offer of HTTP/2 with requests without TLS.
    HttpClient.Builder client =
        HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).followRedirects(HttpClient.Redirect.NEVER);
    if (caFile != null) client.sslContext(contextOf(caFile));
    return client.build();
  }

  private static SSLContext contextOf(Path caFile) {
    try (InputStream pem = Files.newInputStream(caFile)) {
      Collection<? extends Certificate> found = CertificateFactory.getInstance("X.509").generateCertificates(pem);
      if (found.isEmpty()) {
        throw new IllegalArgumentException("caFile is " + caFile + "; it has no certificate in the format PEM");
      }
      KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
      trusted.load(null, null);
      for (Certificate one : found) trusted.setCertificateEntry("ca-" + trusted.size(), one);
      TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      managers.init(trusted);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, managers.getTrustManagers(), null);
      return context;
    } catch (IOException | GeneralSecurityException e) {
      throw new IllegalArgumentException("caFile is " + caFile + "; it cannot be read: " + e, e);
    }
  }

  static Duration checkTimeout(Duration timeout) {
    if (timeout.compareTo(Duration.ZERO) > 0 && timeout.compareTo(MAX_TIMEOUT) <= 0) return timeout;
    throw new IllegalArgumentException(
        "timeout is " + timeout + "; must be more than 0 and at most " + MAX_TIMEOUT.toDays() + " days");
  }

  /** Returns the token. Errors do not show it. */
  static String checkToken(String token) {
    if (token != null && token.matches("[\\x21-\\x7e]+")) return token;
    throw new IllegalArgumentException(
        "token is empty or has spaces, line ends or other characters; must be printable ASCII");
  }
}
