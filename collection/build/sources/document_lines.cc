#include "collection/build/sources/document_lines.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr int64_t kReadBytes = int64_t{1} << 20;

class LinePayloads : public PayloadSource {
 public:
  // Reads the payloads only: the first pass over the file has already read and checked the ids.
  explicit LinePayloads(std::shared_ptr<const InputFile> file) : reader_(std::move(file)) {}

  absl::StatusOr<std::string_view> Next() override {
    absl::StatusOr<std::optional<std::string_view>> line = reader_.Next();
    if (!line.ok()) return line.status();
    if (!line->has_value())
      return absl::FailedPreconditionError(Cat(reader_.Where(), "ended early: it changed meanwhile"));
    absl::StatusOr<DocumentLine> document = ParseDocumentLine(**line);
    if (!document.ok()) return Prefix(reader_.Where(), document.status());
    payload_ = std::move(document->payload);
    return payload_;
  }

 private:
  LineReader reader_;
  std::string payload_;
};

bool HasJsonName(std::string_view path) {
  for (const std::string_view suffix : {".jsonl", ".ndjson", ".json"}) {
    if (path.size() > suffix.size() && path.substr(path.size() - suffix.size()) == suffix) return true;
  }
  return false;
}

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace

std::string LineReader::Where() const { return Cat(file_->path(), ":", line_number_, ": "); }

absl::StatusOr<std::optional<std::string_view>> LineReader::Next() {
  ++line_number_;
  size_t searched = at_;
  while (true) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      const std::string_view line = std::string_view(buffer_).substr(at_, end - at_);
      at_ = end + 1;
      return line;
    }
    if (static_cast<int64_t>(buffer_.size() - at_) > kMaxLineBytes) {
      return Invalid(Where(), "longer than the limit of ", kMaxLineBytes, " bytes a line");
    }
    const int64_t amount = std::min(kReadBytes, file_->size() - next_byte_);
    if (amount == 0) break;
    buffer_.erase(0, at_);
    at_ = 0;
    searched = buffer_.size();
    buffer_.resize(searched + static_cast<size_t>(amount));
    if (absl::Status status = file_->ReadAt(next_byte_, buffer_.data() + searched, static_cast<size_t>(amount));
        !status.ok()) {
      return status;
    }
    next_byte_ += amount;
  }
  if (at_ == buffer_.size()) return std::nullopt;
  const std::string_view line = std::string_view(buffer_).substr(at_);
  at_ = buffer_.size();
  return line;
}

DocumentLineReader::DocumentLineReader(const std::shared_ptr<const InputFile>& file, std::optional<IdType> id_type)
    : lines_(file), convert_(id_type.has_value()), id_type_(id_type) {
  if (HasJsonName(file->path())) is_json_ = true;
}

absl::StatusOr<std::optional<std::string_view>> DocumentLineReader::NextLine() {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  absl::StatusOr<std::optional<std::string_view>> line = lines_.Next();
  if (!line.ok() || !line->has_value()) return line;
  if (!is_json_.value_or(false) && lines_.line_number() == 1 &&
      (*line)->substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    (*line)->remove_prefix(kByteOrderMark.size());
  }
  return line;
}

// `line` must not be blank.
absl::StatusOr<DocumentLine> DocumentLineReader::Parse(std::string_view line) {
  if (!is_json_.has_value()) is_json_ = line[line.find_first_not_of(" \t")] == '{';
  if (*is_json_) return ParseDocumentLine(line);
  if (line.back() == '\r') line.remove_suffix(1);
  return DocumentLine{.id_type = IdType::kString, .string_id = std::string(line), .int_id = 0, .payload = {}};
}

absl::StatusOr<std::optional<DocumentLine>> DocumentLineReader::Next() {
  absl::StatusOr<std::optional<std::string_view>> line = NextLine();
  if (!line.ok()) return line.status();
  if (line->has_value() && IsBlank(**line)) {
    const std::string where = Where();
    while (line.ok() && line->has_value() && IsBlank(**line)) line = NextLine();
    if (!line.ok()) return line.status();
    if (line->has_value()) return Invalid(where, "an empty line between documents");
  }
  if (!line->has_value()) return std::nullopt;
  absl::StatusOr<DocumentLine> document = Parse(**line);
  if (!document.ok()) return Prefix(Where(), document.status());
  if (!id_type_.has_value()) id_type_ = document->id_type;
  if (absl::Status status = ConvertId(*document, *id_type_, convert_); !status.ok()) return Prefix(Where(), status);
  return *std::move(document);
}

absl::Status ConvertId(DocumentLine& document, IdType type, bool convert) {
  if (document.id_type == type) return absl::OkStatus();
  const std::string shown = document.id_type == IdType::kInt64 ? Cat(document.int_id) : Quote(document.string_id);
  if (!convert) {
    return Invalid("id ", shown, " is ", document.id_type == IdType::kInt64 ? "an integer" : "a string",
                   ", unlike those before it; --id-type makes all ids strings or all integers");
  }
  if (type == IdType::kString) {
    document.string_id = Cat(document.int_id);
  } else {
    const char* const end = document.string_id.data() + document.string_id.size();
    const auto [rest, error] = std::from_chars(document.string_id.data(), end, document.int_id);
    // Refuses forms such as "007" or "+7", so that two different texts cannot become the same id.
    if (error != std::errc() || rest != end || Cat(document.int_id) != document.string_id) {
      return Invalid("id ", shown, " is not a 64-bit integer in plain decimal, which --id-type int64 asks for");
    }
  }
  document.id_type = type;
  return absl::OkStatus();
}

std::unique_ptr<PayloadSource> ReadLinePayloads(std::shared_ptr<const InputFile> file) {
  return std::make_unique<LinePayloads>(std::move(file));
}

}  // namespace maxsim::collection
