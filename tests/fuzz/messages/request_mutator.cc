// Mutates a rerank request as a message, so that most inputs are valid enough to be scored. Changes any field, then
// makes the matrices' dimensions fit their data. Mutates some inputs as bytes, to find bugs in parsing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/message.h"
#include "maxsim/v1/rerank.pb.h"
#include "tests/fuzz/messages/request_server.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace maxsim::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Random = std::minstd_rand;

// Returns `value` with mutated bytes.
template <typename T>
T Mutated(T value) {
  LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(&value), sizeof(value), sizeof(value));
  return value;
}

std::string MutatedText(const std::string& text, const std::string& name, Random& random) {
  static const std::vector<std::string> kCollections = {"f16", "i8", "f32", "bf16"};
  if (name == "collection") return kCollections[random() % kCollections.size()];
  if (name == "ids" && random() % 2 == 0) return "doc-" + std::to_string(random() % 10);
  std::vector<uint8_t> bytes(text.begin(), text.end());
  bytes.resize(text.size() + 64);
  bytes.resize(LLVMFuzzerMutate(bytes.data(), text.size(), bytes.size()));
  return std::string(bytes.begin(), bytes.end());
}

// Changes a scalar field, or one element of a repeated scalar field, to a value near the old one.
void MutateScalar(Message& message, const FieldDescriptor& field, Random& random) {
  const Reflection& access = *message.GetReflection();
  const int size = field.is_repeated() ? access.FieldSize(message, &field) : -1;
  const bool add = size == 0 || (size > 0 && random() % 3 == 0);
  const int at = size > 0 ? static_cast<int>(random() % static_cast<unsigned>(size)) : 0;
#define MAXSIM_MUTATE(Type, value_of_change)                                              \
  {                                                                                       \
    const auto old = !field.is_repeated() ? access.Get##Type(message, &field)             \
                     : size > 0           ? access.GetRepeated##Type(message, &field, at) \
                                          : decltype(access.Get##Type(message, &field))();          \
    const auto changed = value_of_change;                                                 \
    if (!field.is_repeated()) return access.Set##Type(&message, &field, changed);         \
    return add ? access.Add##Type(&message, &field, changed)                              \
               : access.SetRepeated##Type(&message, &field, at, changed);                 \
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      MAXSIM_MUTATE(String, MutatedText(old, field.name(), random));
    case FieldDescriptor::CPPTYPE_UINT32:
      MAXSIM_MUTATE(UInt32, random() % 2 == 0 ? static_cast<uint32_t>(random() % 48) : Mutated(old));
    case FieldDescriptor::CPPTYPE_INT64:
      MAXSIM_MUTATE(Int64, random() % 2 == 0 ? static_cast<int64_t>(1000 + random() % 10) : Mutated(old));
    case FieldDescriptor::CPPTYPE_FLOAT:
      MAXSIM_MUTATE(Float, Mutated(old));
    case FieldDescriptor::CPPTYPE_BOOL:
      return access.SetBool(&message, &field, random() % 2 == 0);
    case FieldDescriptor::CPPTYPE_ENUM:
      return access.SetEnumValue(&message, &field, static_cast<int>(random() % 6));
    default:
      return;
  }
#undef MAXSIM_MUTATE
}

// Descends through a few random fields, and changes the last of them.
void Mutate(Message& message, Random& random) {
  const Reflection& access = *message.GetReflection();
  const auto* const type = message.GetDescriptor();
  if (type->field_count() == 0) return;
  const FieldDescriptor& field = *type->field(static_cast<int>(random() % static_cast<unsigned>(type->field_count())));
  if (random() % 12 == 0) return access.ClearField(&message, &field);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return MutateScalar(message, field, random);
  if (!field.is_repeated()) return Mutate(*access.MutableMessage(&message, &field), random);
  const int size = access.FieldSize(message, &field);
  if (size == 0) return Mutate(*access.AddMessage(&message, &field), random);
  const int at = static_cast<int>(random() % static_cast<unsigned>(size));
  switch (random() % 6) {
    case 0:
      return access.AddMessage(&message, &field)->CopyFrom(access.GetRepeatedMessage(message, &field, at));
    case 1:
      return access.RemoveLast(&message, &field);
    default:
      return Mutate(*access.MutableRepeatedMessage(&message, &field, at), random);
  }
}

// Sets the dimension of a matrix to that of all collections, and its number of rows to what its bytes contain.
void Fit(v1::TokenMatrix& matrix) {
  if (matrix.dtype() < v1::DATA_TYPE_F32 || matrix.dtype() > v1::DATA_TYPE_BF16) matrix.set_dtype(v1::DATA_TYPE_F32);
  const size_t row_bytes = kRequestDim * SizeOf(static_cast<ScalarType>(matrix.dtype()));
  const size_t rows = std::max<size_t>(1, matrix.data().size() / row_bytes);
  matrix.set_dim(kRequestDim);
  matrix.set_num_tokens(static_cast<uint32_t>(rows));
  matrix.mutable_data()->resize(rows * row_bytes);
}

void Fit(v1::Candidates& candidates) {
  if (!candidates.has_inline_documents()) return;
  for (v1::TokenMatrix& document : *candidates.mutable_inline_documents()->mutable_documents()) Fit(document);
}

void Fit(v1::RerankRequest& request) {
  if (request.queries().empty()) request.add_queries();
  if (request.has_candidates()) Fit(*request.mutable_candidates());
  for (v1::Query& query : *request.mutable_queries()) {
    Fit(*query.mutable_tokens());
    if (query.has_candidates()) Fit(*query.mutable_candidates());
    while (!query.weights().empty() && query.weights_size() < static_cast<int>(query.tokens().num_tokens())) {
      query.add_weights(1);
    }
    if (!query.weights().empty()) query.mutable_weights()->Truncate(static_cast<int>(query.tokens().num_tokens()));
  }
}

}  // namespace
}  // namespace maxsim::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  maxsim::fuzz::Random random(seed);
  maxsim::v1::RerankRequest request;
  if (random() % 8 == 0 || !request.ParseFromArray(data, static_cast<int>(size))) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  for (unsigned left = 1 + random() % 3; left > 0; --left) maxsim::fuzz::Mutate(request, random);
  if (random() % 8 != 0) maxsim::fuzz::Fit(request);
  if (request.ByteSizeLong() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  request.SerializeWithCachedSizesToArray(data);
  return request.ByteSizeLong();
}
