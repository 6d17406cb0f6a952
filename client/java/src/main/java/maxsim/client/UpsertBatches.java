package maxsim.client;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * The bodies of the requests that write documents, each with at most 10,000 documents and a number of bytes. A single
 * larger document is sent alone, so that the server's error says how large it may be. Reads the documents as needed.
 */
final class UpsertBatches implements Iterator<UpsertBatches.Batch> {
  static final int MAX_DOCUMENTS = 10_000;

  private static final byte[] BEGIN = "{\"documents\":[".getBytes(StandardCharsets.UTF_8);
  private static final byte[] END = "]}".getBytes(StandardCharsets.UTF_8);

  /** The body of a request, and the index of its first document in the whole call. */
  record Batch(byte[] body, int first) {}

  private final Iterator<NewDocument> documents;
  private final int maxBodyBytes;
  private int numRead;
  private byte[] waiting; // a document that was read and is in no batch yet; null at the end

  UpsertBatches(Iterable<NewDocument> documents, int maxBodyBytes) {
    this.documents = documents.iterator();
    this.maxBodyBytes = maxBodyBytes;
    read();
  }

  @Override
  public boolean hasNext() {
    return waiting != null;
  }

  @Override
  public Batch next() {
    if (waiting == null) throw new NoSuchElementException();
    int first = numRead - 1;
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    body.writeBytes(BEGIN);
    for (int i = 0; waiting != null && i < MAX_DOCUMENTS; i++) {
      long size = (long) body.size() + waiting.length + (i > 0 ? 1 : 0) + END.length;
      if (i > 0 && size > maxBodyBytes) break;
      if (i > 0) body.write(',');
      body.writeBytes(waiting);
      read();
    }
    body.writeBytes(END);
    return new Batch(body.toByteArray(), first);
  }

  private void read() {
    waiting = null;
    if (!documents.hasNext()) return;
    waiting = Json.write(documents.next().toJson("documents[" + numRead + "]"));
    numRead++;
  }
}
