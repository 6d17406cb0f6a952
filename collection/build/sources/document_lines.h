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

// Reads the lines of a text file, without the '
// ' at their end. Holds one block of the file in memory.
class LineReader {
 public:
  explicit LineReader(std::shared_ptr<const InputFile> file) : file_(std::move(file)) {}

  // Returns the next line, valid until the next call; nullopt at the end of the file. If the line is longer than
  // kMaxLineBytes, returns INVALID_ARGUMENT with file and line.
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

// Converts a document's id to `type`. Returns INVALID_ARGUMENT if the text is not a plain decimal integer. If `convert`
// is false, returns INVALID_ARGUMENT for an id of the other type instead of converting it.
absl::Status ConvertId(DocumentLine& document, IdType type, bool convert);

// Reads documents from a file. It is JSON Lines if its name ends in .jsonl, .ndjson or .json, or its first line begins
// with '{'. Otherwise it is plain text, and each line is a string id. Empty lines are only allowed at the end.
class DocumentLineReader {
 public:
  // `id_type` has the meaning of ImportOptions::id_type.
  DocumentLineReader(const std::shared_ptr<const InputFile>& file, std::optional<IdType> id_type);

  // Returns the next document, with its id converted to id_type(); nullopt at the end.
  absl::StatusOr<std::optional<DocumentLine>> Next();

  // Returns the type of the ids: the constructor's or, if that was nullopt, the first document's (nullopt before the
  // first Next).
  std::optional<IdType> id_type() const { return id_type_; }
  std::string Where() const { return lines_.Where(); }

 private:
  // Reads a line. Removes a byte order mark at the start of a text file.
  absl::StatusOr<std::optional<std::string_view>> NextLine();
  absl::StatusOr<DocumentLine> Parse(std::string_view line);

  LineReader lines_;
  std::optional<bool> is_json_;  // once it is known
  const bool convert_;
  std::optional<IdType> id_type_;
};

// Returns a source of the payloads in a JSON Lines file. It reads the file from the beginning.
std::unique_ptr<PayloadSource> ReadLinePayloads(std::shared_ptr<const InputFile> file);

}  // namespace maxsim::collection
