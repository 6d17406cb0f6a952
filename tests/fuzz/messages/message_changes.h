// Changes one place of a message. Bytes of the fuzzed input choose the place and the new value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"
#include "tests/fuzz/messages/two_groups.h"

namespace maxsim::fuzz {

// Maps `value` to an integer, which is either small or near the limits of an integer type.
inline int64_t NumberOf(uint32_t value) {
  switch (value >> 30) {
    case 0:
      return value % 64;
    case 1:
      return -1 - static_cast<int64_t>(value % 64);
    case 2:
      return INT64_MAX - static_cast<int64_t>(value % 64);
    default:
      return value;
  }
}

// Sets the field, or adds an element to it.
inline void SetScalar(google::protobuf::Message& message, const google::protobuf::FieldDescriptor& field,
                      uint32_t value) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const bool adds = field.is_repeated();
  const int64_t number = NumberOf(value);
  float bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const std::string text = value % 2 == 0 ? absl::StrCat("doc-", value % 64) : std::string(value % 40, '\xff');
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return (reflection.*(adds ? &google::protobuf::Reflection::AddInt32 : &google::protobuf::Reflection::SetInt32))(
          &message, &field, static_cast<int32_t>(number));
    case FieldDescriptor::CPPTYPE_INT64:
      return (reflection.*(adds ? &google::protobuf::Reflection::AddInt64 : &google::protobuf::Reflection::SetInt64))(
          &message, &field, number);
    case FieldDescriptor::CPPTYPE_UINT32:
      return (reflection.*(adds ? &google::protobuf::Reflection::AddUInt32 : &google::protobuf::Reflection::SetUInt32))(
          &message, &field, static_cast<uint32_t>(number));
    case FieldDescriptor::CPPTYPE_UINT64:
      return (reflection.*(adds ? &google::protobuf::Reflection::AddUInt64 : &google::protobuf::Reflection::SetUInt64))(
          &message, &field, static_cast<uint64_t>(number));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return (reflection.*(adds ? &google::protobuf::Reflection::AddDouble : &google::protobuf::Reflection::SetDouble))(
          &message, &field, bits);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return (reflection.*(adds ? &google::protobuf::Reflection::AddFloat : &google::protobuf::Reflection::SetFloat))(
          &message, &field, bits);
    case FieldDescriptor::CPPTYPE_BOOL:
      return (reflection.*(adds ? &google::protobuf::Reflection::AddBool : &google::protobuf::Reflection::SetBool))(
          &message, &field, number % 2 != 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return adds ? reflection.AddEnumValue(&message, &field, static_cast<int>(number))
                  : reflection.SetEnumValue(&message, &field, static_cast<int>(number));
    case FieldDescriptor::CPPTYPE_STRING:
      return adds ? reflection.AddString(&message, &field, text) : reflection.SetString(&message, &field, text);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
}

// Changes one place of the message. Reads two bytes per nested message on the way to the place, then four bytes for the
// new value.
inline void ChangeMessage(Reader& input, google::protobuf::Message& message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (type.field_count() == 0) return;
  const FieldDescriptor& field = *type.field(input.Byte() % type.field_count());
  const uint8_t what = input.Byte();
  const int size = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
  if (size > 0 && what % 4 == 0) return reflection.RemoveLast(&message, &field);
  if (size > 1 && what % 4 == 1) return reflection.SwapElements(&message, &field, 0, what % size);
  if (!field.is_repeated() && what % 8 == 0) return reflection.ClearField(&message, &field);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return SetScalar(message, field, input.Number());
  if (!field.is_repeated()) return ChangeMessage(input, *reflection.MutableMessage(&message, &field));
  if (size == 0 || what % 4 == 2) {
    reflection.AddMessage(&message, &field);
    return;
  }
  ChangeMessage(input, *reflection.MutableRepeatedMessage(&message, &field, what % size));
}

}  // namespace maxsim::fuzz
