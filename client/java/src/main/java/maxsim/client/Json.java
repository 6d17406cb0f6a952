package maxsim.client;

import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.deser.std.StdDeserializer;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.math.BigInteger;
import java.util.Collection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** The JSON of requests and answers. Thread-safe. */
final class Json {
  private static final JsonMapper MAPPER =
      JsonMapper.builder()
          .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES) // later servers may send more members
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .enable(DeserializationFeature.READ_UNKNOWN_ENUM_VALUES_USING_DEFAULT_VALUE)
          .enable(MapperFeature.ACCEPT_CASE_INSENSITIVE_ENUMS)
          .addModule(readers())
          .build();

  private Json() {}

  private static SimpleModule readers() {
    SimpleModule module = new SimpleModule().addDeserializer(Id.class, new IdReader());
    return module.addDeserializer(long.class, new LongReader()).addDeserializer(Long.class, new LongReader());
  }

  static ObjectNode object() {
    return JsonNodeFactory.instance.objectNode();
  }

  static ArrayNode array() {
    return JsonNodeFactory.instance.arrayNode();
  }

  static JsonNode id(Id id) {
    JsonNodeFactory nodes = JsonNodeFactory.instance;
    return id instanceof Id.Number number ? nodes.numberNode(number.value()) : nodes.textNode(id.toString());
  }

  static ArrayNode ids(Collection<? extends Id> ids) {
    ArrayNode list = array();
    for (Id one : ids) list.add(id(one));
    return list;
  }

  /** Returns an unmodifiable copy, or an empty list for null. */
  static <T> List<T> listOf(List<T> list) {
    return list == null ? List.of() : List.copyOf(list);
  }

  /** Returns a value as a tree. Throws IllegalArgumentException, with {@code name}, if it cannot be written as JSON. */
  static JsonNode tree(Object value, String name) {
    JsonNode tree;
    try {
      tree = MAPPER.valueToTree(value);
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(name + " cannot be written as JSON: " + e.getMessage(), e);
    }
    checkNumbers(tree, name);
    return tree;
  }

  /** Returns the body of a request. */
  static byte[] write(JsonNode value) {
    try {
      return MAPPER.writeValueAsBytes(value);
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException("an argument cannot be written as JSON: " + e.getOriginalMessage(), e);
    }
  }

  /** Returns the tree of an answer's body. */
  static JsonNode parse(byte[] body) throws IOException {
    return MAPPER.readTree(body);
  }

  /** Returns a reader that parses the body of an answer as {@code type}. */
  static <T> Transport.Reader<T> reader(Class<T> type) {
    return body -> {
      T value = MAPPER.readValue(body, type);
      if (value == null) throw new IOException("the answer is null; must be an object");
      return value;
    };
  }

  /**
   * Sets {@code member}, a version or a sequence, unless {@code value} is 0, which means none. Throws
   * IllegalArgumentException if it is negative; {@code name} is the argument's name in the message.
   */
  static void putUnlessZero(ObjectNode body, String member, long value, String name) {
    if (value < 0) throw new IllegalArgumentException(name + " is " + value + "; must be 0 or more");
    if (value != 0) body.put(member, value);
  }

  /** Sets the sequence of a write that the answer must include; 0 for none. */
  static void putMinSequence(ObjectNode body, long minSequence) {
    putUnlessZero(body, "min_sequence", minSequence, "minSequence");
  }

  private static void checkNumbers(JsonNode tree, String name) {
    if ((tree.isDouble() || tree.isFloat()) && !Double.isFinite(tree.doubleValue())) {
      throw new IllegalArgumentException(name + " is " + tree.doubleValue() + "; JSON has no such value");
    }
    for (int i = 0; tree.isArray() && i < tree.size(); i++) checkNumbers(tree.get(i), name + "[" + i + "]");
    for (Iterator<Map.Entry<String, JsonNode>> i = tree.fields(); i.hasNext(); ) {
      Map.Entry<String, JsonNode> member = i.next();
      checkNumbers(member.getValue(), name + "." + member.getKey());
    }
  }

  /**
   * Reads an integer of 64 bits, signed or unsigned. Does not call getLongValue for large ones, because jackson-core
   * 2.14.1 of Debian 12 refuses integers of 19 digits there.
   */
  private static long readLong(JsonParser parser) throws IOException {
    if (parser.currentToken() != JsonToken.VALUE_NUMBER_INT) {
      throw new JsonParseException(parser, "expected an integer, found " + parser.currentToken());
    }
    if (parser.getNumberType() != JsonParser.NumberType.BIG_INTEGER) return parser.getLongValue();
    BigInteger value = parser.getBigIntegerValue();
    if (value.bitLength() > (value.signum() < 0 ? 63 : 64)) {
      throw new JsonParseException(parser, "found " + value + ", expected an integer of 64 bits");
    }
    return value.longValue();
  }

  private static final class LongReader extends StdDeserializer<Long> {
    private static final long serialVersionUID = 1;

    LongReader() {
      super(Long.class);
    }

    @Override
    public Long deserialize(JsonParser parser, DeserializationContext context) throws IOException {
      return readLong(parser);
    }

    @Override
    public Long getNullValue(DeserializationContext context) {
      return 0L; // also for a member that is absent
    }
  }

  private static final class IdReader extends StdDeserializer<Id> {
    private static final long serialVersionUID = 1;

    IdReader() {
      super(Id.class);
    }

    @Override
    public Id deserialize(JsonParser parser, DeserializationContext context) throws IOException {
      return parser.currentToken() == JsonToken.VALUE_STRING ? Id.of(parser.getText()) : Id.of(readLong(parser));
    }
  }
}
