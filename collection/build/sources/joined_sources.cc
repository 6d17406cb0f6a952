#include "collection/build/sources/joined_sources.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "collection/formats/element_type.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

class JoinedTokens : public TokenSource {
 public:
  explicit JoinedTokens(std::vector<std::unique_ptr<TokenSource>> sources)
      : sources_(std::move(sources)), type_(sources_.front()->type()) {
    for (const std::unique_ptr<TokenSource>& source : sources_) {
      if (source->type() != type_) type_ = ElementType::kF32;
    }
    for (const std::unique_ptr<TokenSource>& source : sources_) num_tokens_ += source->num_tokens();
  }
  ElementType type() const override { return type_; }
  int64_t dim() const override { return sources_.front()->dim(); }
  int64_t num_tokens() const override { return num_tokens_; }

  absl::StatusOr<const void*> Next(int64_t num_rows) override {
    SkipFinished();
    if (num_rows <= RowsLeft() && sources_[source_]->type() == type_) {
      row_ += num_rows;
      return sources_[source_]->Next(num_rows);
    }
    block_.resize(static_cast<size_t>(num_rows * dim()) * SizeOf(type_));
    for (int64_t done = 0; done < num_rows;) {
      SkipFinished();
      const int64_t count = std::min(num_rows - done, RowsLeft());
      const absl::StatusOr<const void*> rows = sources_[source_]->Next(count);
      if (!rows.ok()) return rows.status();
      Copy(sources_[source_]->type(), *rows, static_cast<size_t>(count * dim()),
           block_.data() + static_cast<size_t>(done * dim()) * SizeOf(type_));
      row_ += count;
      done += count;
    }
    return block_.data();
  }

 private:
  int64_t RowsLeft() const { return sources_[source_]->num_tokens() - row_; }
  void SkipFinished() {
    while (RowsLeft() == 0 && source_ + 1 < sources_.size()) {
      ++source_;
      row_ = 0;
    }
  }
  void Copy(ElementType from, const void* rows, size_t count, char* target) const {
    if (from == type_) {
      std::copy_n(static_cast<const char*>(rows), count * SizeOf(from), target);
    } else if (from == ElementType::kF64) {
      auto* values = reinterpret_cast<float*>(target);
      for (size_t idx = 0; idx < count; ++idx) values[idx] = static_cast<float>(LoadFloat(from, rows, idx));
    } else {
      ConvertElements(*ToScalarType(from), rows, ScalarType::kF32, target, count);
    }
  }

  const std::vector<std::unique_ptr<TokenSource>> sources_;
  ElementType type_;
  int64_t num_tokens_ = 0;
  size_t source_ = 0;
  int64_t row_ = 0;  // next one of the present source
  std::vector<char> block_;
};

class JoinedPayloads : public PayloadSource {
 public:
  explicit JoinedPayloads(std::vector<PayloadPart> parts) : parts_(std::move(parts)) {}

  absl::StatusOr<std::string_view> Next() override {
    while (part_ + 1 < parts_.size() && document_ == parts_[part_].num_documents) {
      ++part_;
      document_ = 0;
    }
    ++document_;
    if (parts_[part_].source == nullptr) return std::string_view();
    return parts_[part_].source->Next();
  }

 private:
  const std::vector<PayloadPart> parts_;
  size_t part_ = 0;
  int64_t document_ = 0;  // next one of the present part
};

}  // namespace

std::unique_ptr<TokenSource> JoinTokens(std::vector<std::unique_ptr<TokenSource>> sources) {
  if (sources.size() == 1) return std::move(sources.front());
  return std::make_unique<JoinedTokens>(std::move(sources));
}

std::unique_ptr<PayloadSource> JoinPayloads(std::vector<PayloadPart> parts) {
  if (parts.size() == 1) return std::move(parts.front().source);
  return std::make_unique<JoinedPayloads>(std::move(parts));
}

}  // namespace maxsim::collection
