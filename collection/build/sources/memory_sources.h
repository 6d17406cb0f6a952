// Sources that read from memory, for small collections and tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collection/build/sources/sources.h"

namespace maxsim::collection {

// Reads token vectors from an array [num_tokens, dim], which must outlive the object.
class MemoryTokens : public TokenSource {
 public:
  MemoryTokens(ElementType type, int64_t dim, int64_t num_tokens, const void* data)
      : type_(type), dim_(dim), num_tokens_(num_tokens), data_(static_cast<const char*>(data)) {}
  ElementType type() const override { return type_; }
  int64_t dim() const override { return dim_; }
  int64_t num_tokens() const override { return num_tokens_; }
  absl::StatusOr<const void*> Next(int64_t num_rows) override {
    if (num_rows > num_tokens_ - next_)
      return absl::OutOfRangeError("the read asks for more token vectors than there are");
    const char* rows = data_ + next_ * dim_ * static_cast<int64_t>(SizeOf(type_));
    next_ += num_rows;
    return rows;
  }

 private:
  const ElementType type_;
  const int64_t dim_;
  const int64_t num_tokens_;
  const char* const data_;
  int64_t next_ = 0;
};

class MemoryPayloads : public PayloadSource {
 public:
  explicit MemoryPayloads(std::vector<std::string> payloads) : payloads_(std::move(payloads)) {}
  absl::StatusOr<std::string_view> Next() override {
    if (next_ == payloads_.size()) return absl::OutOfRangeError("the read asks for more payloads than there are");
    return payloads_[next_++];
  }

 private:
  const std::vector<std::string> payloads_;
  size_t next_ = 0;
};

}  // namespace maxsim::collection
