// Reads a file of documents line by line: JSON Lines, or plain text with one id per line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/document_line.h"

namespace maxsim::collection {

// Lines of a text file, without their ends. Holds one block of the file.
class LineReader {
 public:
  explicit LineReader(std::shared_ptr<const InputFile> file) : file_(std::move(file)) {}

  // Returns the next line, valid until the next call; nullopt at the end of the file. INVALID_ARGUMENT naming file and
  // line when it is longer than kMaxLineBytes.
  absl::StatusOr<std::optional<std::string_view>> Next();

  // Returns the number, from 1 on, of the line that Next returned last.
  int64_t line_number() const { return line_number_; }
  // Returns "docs.jsonl:17: ", for messages.
  std::string Where() const;

 private:
  const std::shared_ptr<const InputFile> file_;
  int64_t next_byte_ = 0;  // offset in the file where the buffer ends
  std::string buffer_;
  size_t at_ = 0;  // in the buffer
  int64_t line_number_ = 0;
};

// Converts a document's id to `type`, if nothing is lost. Otherwise returns INVALID_ARGUMENT. Without `convert`,
// returns INVALID_ARGUMENT for every id of another type.
absl::Status ConvertId(DocumentLine& document, IdType type, bool convert);

// Reads documents of a file of lines. A name that ends in .jsonl, .ndjson or .json, or a first line that begins with
// '{', makes it JSON Lines; every other file is plain text, each line an id, which is a string. Empty lines are only
// allowed at the end.
class DocumentLineReader {
 public:
  // `id_type` has the meaning of ImportOptions::id_type.
  DocumentLineReader(const std::shared_ptr<const InputFile>& file, std::optional<IdType> id_type);

  // Returns the next document, its id in the reader's type; nullopt at the end.
  absl::StatusOr<std::optional<DocumentLine>> Next();

  // Returns the type of the ids: the given one, or that of the first document. In the latter case it is nullopt before
  // the first Next.
  std::optional<IdType> id_type() const { return id_type_; }
  std::string Where() const { return lines_.Where(); }

 private:
  // Reads a line, without the byte order mark that a text file may begin with.
  absl::StatusOr<std::optional<std::string_view>> NextLine();
  absl::StatusOr<DocumentLine> Parse(std::string_view line);

  LineReader lines_;
  std::optional<bool> is_json_;  // once it is known
  const bool convert_;
  std::optional<IdType> id_type_;
};

// Returns the payloads of a JSON Lines file. Reads the file a second time for them.
std::unique_ptr<PayloadSource> ReadLinePayloads(std::shared_ptr<const InputFile> file);

}  // namespace maxsim::collection
