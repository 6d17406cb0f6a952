// The documents for `maxsimctl upsert`: from a file of lines, or from the inputs that `maxsim-shard build` takes.
#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "collection/build/import.h"
#include "maxsim/v1/documents.pb.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::ctl {

class DocumentSource {
 public:
  virtual ~DocumentSource() = default;

  // Returns the next document, or nullopt at the end. Errors name the file and the place in it.
  virtual absl::StatusOr<std::optional<v1::Document>> Next() = 0;

  // Returns a name for the document that Next returned last, for messages: "docs.jsonl:17" or "document 17".
  virtual std::string Where() const = 0;

  // Returns the number of documents, if it is known before the end.
  virtual std::optional<int64_t> num_documents() const { return std::nullopt; }
};

// Reads lines with ParseUpsertLine, one at a time, and skips blank lines. `lines` must outlive the source.
std::unique_ptr<DocumentSource> ReadUpsertLines(std::istream& lines, const std::string& path, v1::IdType id_type);

// Reads arrays, archives and collections, with their ids and payloads. Every document gets `version`; 0 means no
// version.
absl::StatusOr<std::unique_ptr<DocumentSource>> OpenArrays(const collection::ImportOptions& options, uint64_t version);

}  // namespace maxsim::ctl
