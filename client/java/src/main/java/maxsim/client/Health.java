package maxsim.client;

/**
 * Whether a server takes requests.
 *
 * @param isReady true if {@code /readyz} answers 200
 * @param message the server's text: the reason if it is not ready, and lost devices if it is
 */
public record Health(boolean isReady, String message) {}
