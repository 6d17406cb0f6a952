#include "tools/maxsimctl/write/document_source.h"

#include <utility>

#include "base/lines.h"
#include "base/text.h"
#include "client/messages.h"
#include "tools/maxsimctl/write/upsert_line.h"

namespace maxsim::ctl {
namespace {

using collection::ElementType;

class UpsertLines final : public DocumentSource {
 public:
  UpsertLines(std::istream& lines, const std::string& path, v1::IdType id_type)
      : lines_(lines), name_(path == "-" ? "standard input" : path), id_type_(id_type) {}

  absl::StatusOr<std::optional<v1::Document>> Next() override {
    while (true) {
      const absl::StatusOr<bool> found = NextLine();
      if (!found.ok()) return found.status();
      if (!*found) return std::nullopt;
      if (Trim(line_).empty()) continue;
      absl::StatusOr<v1::Document> document = ParseUpsertLine(line_, id_type_);
      if (!document.ok()) return Prefix(Cat(Where(), ": "), document.status());
      return *std::move(document);
    }
  }

  std::string Where() const override { return Cat(name_, ":", line_number_); }

 private:
  // Reads the next line into line_, without its line end. Returns false after the last line. INVALID_ARGUMENT for a
  // line longer than kMaxUpsertLineBytes, before all of it is read.
  absl::StatusOr<bool> NextLine() {
    ++line_number_;
    line_.clear();
    while (true) {
      const size_t end = block_.find('\n', at_);
      line_.append(block_, at_, end == std::string::npos ? end : end - at_);
      if (line_.size() > kMaxUpsertLineBytes) {
        return Invalid(Where(), ": longer than the limit of ", kMaxUpsertLineBytes, " bytes a line");
      }
      if (end != std::string::npos) {
        at_ = end + 1;
        return true;
      }
      constexpr size_t kBlockBytes = size_t{1} << 20;
      block_.resize(kBlockBytes);
      at_ = 0;
      lines_.read(block_.data(), kBlockBytes);
      block_.resize(static_cast<size_t>(lines_.gcount()));
      if (!block_.empty()) continue;
      if (lines_.bad()) return absl::DataLossError(Cat(Where(), ": cannot be read"));
      return !line_.empty();
    }
  }

  std::istream& lines_;
  const std::string name_;
  const v1::IdType id_type_;
  std::string block_, line_;
  size_t at_ = 0;  // in the block
  int64_t line_number_ = 0;
};

class Arrays final : public DocumentSource {
 public:
  Arrays(collection::Import import, uint64_t version) : import_(std::move(import)), version_(version) {}

  absl::StatusOr<std::optional<v1::Document>> Next() override {
    if (next_ == import_.catalog->num_documents()) return std::nullopt;
    const int64_t ordinal = next_++;
    const int32_t length = import_.catalog->lengths[static_cast<size_t>(ordinal)];
    const absl::StatusOr<const void*> rows = import_.tokens->Next(length);
    if (!rows.ok()) return rows.status();
    v1::Document document;
    const collection::IdList& ids = import_.catalog->ids;
    if (ids.type() == collection::IdType::kInt64) {
      document.set_int_id(ids.int_id(ordinal));
    } else {
      document.set_string_id(std::string(ids.string_id(ordinal)));
    }
    *document.mutable_tokens() = Tokens(*rows, length);
    document.set_version(version_);
    if (import_.payloads != nullptr) {
      const absl::StatusOr<std::string_view> payload = import_.payloads->Next();
      if (!payload.ok()) return payload.status();
      document.set_payload(std::string(*payload));
    }
    return document;
  }

  std::string Where() const override { return Cat("document ", next_ - 1); }
  std::optional<int64_t> num_documents() const override { return import_.catalog->num_documents(); }

 private:
  v1::TokenMatrix Tokens(const void* rows, int32_t length) const {
    const int64_t num_values = length * import_.tokens->dim();
    const auto dim = static_cast<uint32_t>(import_.tokens->dim());
    const ElementType type = import_.tokens->type();
    if (type != ElementType::kF64) {
      const v1::DataType wire = type == ElementType::kF16    ? v1::DATA_TYPE_F16
                                : type == ElementType::kBF16 ? v1::DATA_TYPE_BF16
                                                             : v1::DATA_TYPE_F32;
      return client::MakeTokens(
          wire, static_cast<uint32_t>(length), dim,
          std::string(static_cast<const char*>(rows), static_cast<size_t>(num_values) * SizeOf(type)));
    }
    std::vector<float> values(static_cast<size_t>(num_values));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(collection::LoadFloat(type, rows, i));
    return client::MakeTokens(values, dim);
  }

  const collection::Import import_;
  const uint64_t version_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<DocumentSource> ReadUpsertLines(std::istream& lines, const std::string& path, v1::IdType id_type) {
  return std::make_unique<UpsertLines>(lines, path, id_type);
}

absl::StatusOr<std::unique_ptr<DocumentSource>> OpenArrays(const collection::ImportOptions& options, uint64_t version) {
  absl::StatusOr<collection::Import> import = collection::OpenImport(options);
  if (!import.ok()) return import.status();
  return std::make_unique<Arrays>(*std::move(import), version);
}

}  // namespace maxsim::ctl
