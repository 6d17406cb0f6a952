package maxsim.client;

/** The id of a document. A collection has either texts or 64-bit integers as ids. Immutable. */
public sealed interface Id {
  /** An id that is a text. */
  record Text(String value) implements Id {
    /** Throws NullPointerException if {@code value} is null. */
    public Text {
      if (value == null) throw new NullPointerException("the id is null; must be a text or an integer");
    }

    @Override
    public String toString() {
      return value;
    }
  }

  /** An id that is an integer. */
  record Number(long value) implements Id {
    @Override
    public String toString() {
      return Long.toString(value);
    }
  }

  /** Returns the id of a collection whose ids are texts. */
  static Id of(String value) {
    return new Text(value);
  }

  /** Returns the id of a collection whose ids are integers. */
  static Id of(long value) {
    return new Number(value);
  }
}
