#include "server/grpc/messages/message_memory.h"

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/saturating.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace maxsim::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;

// A message up to this size is not checked, because it cannot take much memory. The field that grows most when it is
// parsed is an empty submessage: from 2 bytes to about 100.
constexpr size_t kUncheckedBytes = size_t{1} << 20;

// The overhead of an allocation.
constexpr uint64_t kHeapBytes = 16;
constexpr uint64_t kPointerBytes = sizeof(void*);
constexpr uint64_t kStringObjectBytes = sizeof(std::string) + kHeapBytes;
constexpr size_t kInPlaceChars = 15;         // a string of up to this length allocates nothing more
constexpr uint64_t kUnknownFieldBytes = 32;  // an element of 16 bytes in a vector that grows
constexpr uint64_t kUnknownGroupBytes = sizeof(void*) + kHeapBytes;
constexpr uint64_t kGrowth = 2;  // of an array that doubles
// protobuf refuses messages nested more deeply than 100.
constexpr int kMaxDepth = 128;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kBeginGroup = 3, kEndGroup = 4, kFixed32 = 5 };

uint32_t WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return kFixed32;
    default:
      return kVarint;
  }
}

// Describes the fields of one message type, and how much memory they take.
struct Shape {
  struct Field {
    enum class Kind { kUnknown, kMessage, kString, kScalar };
    Kind kind = Kind::kUnknown;
    const FieldDescriptor* descriptor = nullptr;
    const Shape* shape = nullptr;  // of a kMessage
    uint32_t wire_type = kBytes;   // the expected one; a list of scalars may also be packed
    uint64_t bytes = 0;  // memory of one occurrence without its contents; in a list of scalars, of one element
  };
  std::vector<Field> fields;  // by number
};

uint64_t ElementBytes(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return 1;
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return 8;
    default:
      return 4;
  }
}

class Shapes {
 public:
  // Returns the shape of a message type. It is thread-safe.
  const Shape* Of(const Descriptor* type) {
    const MutexLock lock(&mutex_);
    return FindOrMake(type);
  }

 private:
  const Shape* FindOrMake(const Descriptor* type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::unique_ptr<Shape>& shape = shapes_[type];
    if (shape != nullptr) return shape.get();
    shape = std::make_unique<Shape>();
    Shape* const made = shape.get();
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor* const field = type->field(i);
      const auto number = static_cast<size_t>(field->number());
      if (made->fields.size() <= number) made->fields.resize(number + 1);
      made->fields[number] = Describe(field);
    }
    return made;
  }

  Shape::Field Describe(const FieldDescriptor* field) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const uint64_t in_list = field->is_repeated() ? kPointerBytes * kGrowth : 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        const Descriptor* const type = field->message_type();
        const uint64_t bytes =
            google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->SpaceUsedLong();
        return {Shape::Field::Kind::kMessage, field, FindOrMake(type), kBytes, bytes + kHeapBytes + in_list};
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return {Shape::Field::Kind::kString, field, nullptr, kBytes, kStringObjectBytes + in_list};
      default:
        return {Shape::Field::Kind::kScalar, field, nullptr, WireTypeOf(*field),
                field->is_repeated() ? ElementBytes(*field) * kGrowth : 0};
    }
  }

  Mutex mutex_;
  std::map<const Descriptor*, std::unique_ptr<Shape>> shapes_ ABSL_GUARDED_BY(mutex_);
};

class Walk {
 public:
  Walk(CodedInputStream* input, uint64_t limit) : input_(*input), limit_(limit) {}

  // Reads fields up to the end of the message or, inside a group, to the tag `end_tag`. If `shape` is null, all fields
  // are unknown. Returns false if the message is malformed or takes too much memory. In the second case, field()
  // returns the field that exceeded the limit.
  bool Fields(const Shape* shape, uint32_t end_tag, int depth) {
    if (depth > kMaxDepth) return false;
    while (true) {
      const uint32_t tag = input_.ReadTag();
      if (tag == 0) return end_tag == 0 && input_.ConsumedEntireMessage();
      if ((tag & 7) == kEndGroup) return tag == end_tag;
      const size_t number = tag >> 3;
      if (number == 0) return false;
      const bool known = shape != nullptr && number < shape->fields.size();
      if (!(known ? KnownField(shape->fields[number], tag, depth) : UnknownField(tag, depth))) return false;
    }
  }

  bool too_large() const { return bytes_ > limit_; }
  uint64_t bytes() const { return bytes_; }
  const FieldDescriptor* field() const { return field_; }  // null for an unknown field

 private:
  bool Take(uint64_t bytes, const FieldDescriptor* field) {
    bytes_ = SaturatingAdd(bytes_, bytes);
    field_ = field;
    return !too_large();
  }

  bool ReadLength(uint32_t* length) { return input_.ReadVarint32(length); }
  bool Skip(uint32_t length) { return length <= INT32_MAX && input_.Skip(static_cast<int>(length)); }

  bool KnownField(const Shape::Field& field, uint32_t tag, int depth) {
    using Kind = Shape::Field::Kind;
    uint32_t length = 0;
    if ((tag & 7) != kBytes) {
      if (field.kind != Kind::kScalar || (tag & 7) != field.wire_type) return UnknownField(tag, depth);
      return Take(field.bytes, field.descriptor) && SkipScalar(tag);
    }
    switch (field.kind) {
      case Kind::kMessage: {
        if (!ReadLength(&length) || length > INT32_MAX || !Take(field.bytes, field.descriptor)) return false;
        const CodedInputStream::Limit outer = input_.PushLimit(static_cast<int>(length));
        const bool whole = Fields(field.shape, 0, depth + 1) && input_.BytesUntilLimit() == 0;
        input_.PopLimit(outer);
        return whole;
      }
      case Kind::kString:
        return ReadLength(&length) &&
               Take(field.bytes + (length > kInPlaceChars ? length + kHeapBytes : 0), field.descriptor) && Skip(length);
      case Kind::kScalar:
        // A packed field: each element takes 4 or 8 bytes if its type has a fixed size, and otherwise at least one
        // byte.
        if (!field.descriptor->is_packable()) return UnknownField(tag, depth);
        return ReadLength(&length) && Take(PackedBytes(field, length), field.descriptor) && Skip(length);
      case Kind::kUnknown:
        break;
    }
    return UnknownField(tag, depth);
  }

  static uint64_t PackedBytes(const Shape::Field& field, uint64_t length) {
    return field.wire_type == kVarint ? length * field.bytes : length * kGrowth;
  }

  // Counts unknown fields too, because protobuf keeps them.
  bool UnknownField(uint32_t tag, int depth) {
    uint32_t length = 0;
    switch (tag & 7) {
      case kBytes:
        return ReadLength(&length) && Take(kUnknownFieldBytes + kStringObjectBytes + length, nullptr) && Skip(length);
      case kBeginGroup:
        return Take(kUnknownFieldBytes + kUnknownGroupBytes, nullptr) && Fields(nullptr, tag + 1, depth + 1);
      default:
        return Take(kUnknownFieldBytes, nullptr) && SkipScalar(tag);
    }
  }

  bool SkipScalar(uint32_t tag) {
    uint64_t value = 0;
    switch (tag & 7) {
      case kVarint:
        return input_.ReadVarint64(&value);
      case kFixed64:
        return input_.Skip(8);
      case kFixed32:
        return input_.Skip(4);
      default:
        return false;
    }
  }

  CodedInputStream& input_;
  const uint64_t limit_;
  uint64_t bytes_ = 0;
  const FieldDescriptor* field_ = nullptr;
};

const Shape* ShapeOf(const Descriptor* type) {
  static auto* const shapes = new Shapes;
  return shapes->Of(type);
}

}  // namespace

uint64_t EstimateParsedBytes(const grpc::ByteBuffer& buffer, const Descriptor* type) {
  grpc::ByteBuffer bytes(buffer);
  grpc::ProtoBufferReader reader(&bytes);
  CodedInputStream input(&reader);
  Walk walk(&input, std::numeric_limits<uint64_t>::max());
  if (reader.status().ok()) walk.Fields(ShapeOf(type), 0, 0);
  return walk.bytes();
}

absl::Status CheckParsedMemory(const grpc::ByteBuffer& buffer, const Descriptor* type) {
  const size_t size = buffer.Length();
  if (size <= kUncheckedBytes) return absl::OkStatus();
  const uint64_t limit = kFreeParsedBytes + kParsedBytesPerByte * size;
  grpc::ByteBuffer bytes(buffer);  // shares the bytes: a reader needs a buffer that it may change
  grpc::ProtoBufferReader reader(&bytes);
  CodedInputStream input(&reader);
  Walk walk(&input, limit);
  if (reader.status().ok() && walk.Fields(ShapeOf(type), 0, 0)) return absl::OkStatus();
  if (!walk.too_large()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message of ", size, " bytes is not a ", type->full_name(), ": it is malformed"));
  }
  // full_name() is a name in the message type, and not a path in the request. So it goes into the message, and not into
  // the error's field.
  return absl::InvalidArgumentError(absl::StrCat(
      walk.field() == nullptr ? "a field that this server does not know" : walk.field()->full_name(),
      ": is repeated so often that the message of ", size, " bytes would take more than ", limit, " bytes of memory"));
}

}  // namespace maxsim::rpc
