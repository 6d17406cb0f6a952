// The ids that candidates are drawn from. Immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::loadtest {

class IdSet {
 public:
  // Reads one id per line, of type `type` (strings if the collection does not name one). Skips empty lines. Returns
  // NOT_FOUND or INVALID_ARGUMENT naming the file. INVALID_ARGUMENT also names the line of an id that should be a
  // 64-bit integer and is not, or both lines of a repeated id. Repeated ids are refused because a server scores them
  // once, so that its answers would be too short.
  static absl::StatusOr<IdSet> FromFile(const std::string& path, v1::IdType type);
  // Returns the ids 0 .. count - 1 as integers, or with a prefix as strings: "doc-0", "doc-1" and so on.
  static IdSet Numbered(uint64_t count, const std::optional<std::string>& prefix);

  uint64_t size() const { return size_; }
  v1::IdType type() const { return type_; }

  // Returns the ids with these numbers, each below size(), as the candidates of a query.
  v1::Candidates Candidates(const std::vector<uint64_t>& numbers) const;

  // Returns true when hit `hit` of `result` names the id with number `number`.
  bool Names(const v1::QueryResult& result, int hit, uint64_t number) const;

 private:
  std::string StringId(uint64_t number) const;
  int64_t IntId(uint64_t number) const;

  v1::IdType type_ = v1::ID_TYPE_INT64;
  uint64_t size_ = 0;
  std::string prefix_;
  // The ids of a file. Both are empty if ids are numbered.
  std::vector<std::string> strings_;
  std::vector<int64_t> ints_;
};

}  // namespace maxsim::loadtest
