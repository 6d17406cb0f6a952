#include "server/service/request/candidates.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/limits.h"
#include "server/engine/engine.h"
#include "server/service/call/status.h"
#include "server/service/request/ordinal_set.h"
#include "server/service/request/stored_rows.h"
#include "server/service/selection/selected_documents.h"

namespace maxsim::service {
namespace {

// The ids of a list that the collection does not hold, each once. Not one of abseil's sets: those are broken after an
// allocation that throws (guard.h). The hash has a random seed, so that no client can choose ids that collide.
template <typename Id>
using MissingIds = std::unordered_set<Id, absl::Hash<Id>>;

absl::Status CheckListSize(int64_t size, const RequestLimits& limits, FieldPath path, const char* field) {
  if (size >= 1 && size <= limits.max_candidates_per_query) return absl::OkStatus();
  return InvalidField(absl::StrCat(path(), ".", field, ".ids"),
                      absl::StrCat("has ", size, " ids; must have 1 to ", limits.max_candidates_per_query,
                                   " (limits.max_candidates_per_query)"),
                      {limits.max_candidates_per_query, size, "limits.max_candidates_per_query"});
}

// Removes the documents that do not match from `set`.
void KeepMatching(const store::Collection& collection, const store::MatchingDocuments& matching,
                  engine::CandidateSet& set) {
  size_t count = 0;
  for (size_t i = 0; i < set.ordinals.size(); ++i) {
    if (!matching.Contains(collection.Locate(set.ordinals[i]))) continue;
    set.ordinals[count] = set.ordinals[i];
    set.positions[count++] = set.positions[i];
  }
  set.ordinals.resize(count);
  set.positions.resize(count);
}

// Finds the documents of the ids, and drops repeated ids. Calls `add_missing` with the index of each id that the
// collection does not hold or that is not in `visible`, in the list's order.
template <typename Id, typename AddMissing>
void ResolveList(absl::Span<const Id> ids, const store::Collection& collection, const store::MatchingDocuments* visible,
                 engine::CandidateSet& set, AddMissing add_missing) {
  set.kind = engine::CandidateSet::Kind::kOrdinals;
  set.ordinals.resize(ids.size());
  set.positions.resize(ids.size());
  collection.FindAll(ids, absl::MakeSpan(set.ordinals));
  if (visible != nullptr) HideInvisible(collection, *visible, absl::MakeSpan(set.ordinals));
  thread_local OrdinalSet seen;
  seen.Begin(ids.size(), collection.num_ordinals());
  size_t count = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint64_t ordinal = set.ordinals[i];
    if (ordinal == store::IdIndex::kUnknown) {
      add_missing(i);
    } else if (seen.Insert(ordinal)) {
      set.ordinals[count] = ordinal;
      set.positions[count++] = static_cast<uint32_t>(i);
    }
  }
  set.ordinals.resize(count);
  set.positions.resize(count);
}

absl::Status CheckIdKind(std::string_view collection, collection::IdType held, collection::IdType sent,
                         FieldPath path) {
  if (held == sent) return absl::OkStatus();
  return InvalidField(absl::StrCat(path(), sent == collection::IdType::kString ? ".string_ids" : ".int_ids"),
                      absl::StrCat("the ids of collection ", std::string(collection), " are of type ",
                                   std::string(collection::Name(held))));
}

bool IsWrongId(const std::string& id) { return id.empty() || id.size() > static_cast<size_t>(kMaxIdBytes); }

absl::Status WrongId(const std::string& id, size_t idx, FieldPath path) {
  return InvalidField(absl::StrCat(path(), ".string_ids.ids[", idx, "]"),
                      absl::StrCat("has ", id.size(), " bytes; must have 1 to ", kMaxIdBytes),
                      {kMaxIdBytes, id.size()});
}

absl::Status ResolveStrings(const v1::StringIds& list, const store::Collection& collection, const RequestLimits& limits,
                            bool fail_on_missing, FieldPath path, const store::MatchingDocuments* visible,
                            engine::CandidateSet& set, ResolvedCandidates& resolved) {
  absl::Status status =
      CheckIdKind(collection.name(), collection.manifest().id_type, collection::IdType::kString, path);
  if (status.ok()) status = CheckListSize(list.ids_size(), limits, path, "string_ids");
  if (!status.ok()) return status;
  MissingIds<absl::string_view> missing;
  std::optional<size_t> wrong;  // index of the first invalid id. Only unknown ids can be invalid
  const absl::Span<const std::string* const> ids(list.ids().data(), static_cast<size_t>(list.ids_size()));
  ResolveList(ids, collection, visible, set, [&](size_t i) {
    const std::string& id = *ids[i];
    if (IsWrongId(id)) {
      if (!wrong.has_value()) wrong = i;
    } else if (missing.insert(id).second) {
      resolved.missing_string_ids.push_back(id);
    }
  });
  if (wrong.has_value()) return WrongId(*ids[*wrong], *wrong, path);
  if (!fail_on_missing || missing.empty()) return absl::OkStatus();
  return UnknownIds(missing.size(), static_cast<size_t>(list.ids_size()),
                    absl::StrCat("\"", resolved.missing_string_ids.front(), "\""), path);
}

absl::Status ResolveInts(const v1::IntIds& list, const store::Collection& collection, const RequestLimits& limits,
                         bool fail_on_missing, FieldPath path, const store::MatchingDocuments* visible,
                         engine::CandidateSet& set, ResolvedCandidates& resolved) {
  absl::Status status = CheckIdKind(collection.name(), collection.manifest().id_type, collection::IdType::kInt64, path);
  if (status.ok()) status = CheckListSize(list.ids_size(), limits, path, "int_ids");
  if (!status.ok()) return status;
  MissingIds<int64_t> missing;
  const absl::Span<const int64_t> ids(list.ids().data(), static_cast<size_t>(list.ids_size()));
  ResolveList(ids, collection, visible, set, [&](size_t i) {
    if (missing.insert(ids[i]).second) resolved.missing_int_ids.push_back(ids[i]);
  });
  if (!fail_on_missing || missing.empty()) return absl::OkStatus();
  return UnknownIds(missing.size(), static_cast<size_t>(list.ids_size()),
                    absl::StrCat(resolved.missing_int_ids.front()), path);
}

absl::Status ResolveInline(const v1::InlineDocuments& list, const store::Collection& collection,
                           const RequestLimits& limits, FieldPath path, engine::CandidateSet& set,
                           ResolvedCandidates& resolved) {
  const int count = list.documents_size();
  if (count < 1 || count > limits.max_inline_documents) {
    return InvalidField(absl::StrCat(path(), ".inline_documents.documents"),
                        absl::StrCat("has ", count, " documents; must have 1 to ", limits.max_inline_documents,
                                     " (limits.max_inline_documents)"),
                        {limits.max_inline_documents, count, "limits.max_inline_documents"});
  }
  const StoredForm form = StoredFormOf(collection, limits);
  set.kind = engine::CandidateSet::Kind::kInline;
  set.inline_offsets.reserve(static_cast<size_t>(count) + 1);
  set.inline_offsets.push_back(0);
  // Check all shapes before converting any document.
  for (int i = 0; i < count; ++i) {
    const auto document_path = [&] { return absl::StrCat(path(), ".inline_documents.documents[", i, "]"); };
    if (absl::Status status = CheckShape(list.documents(i), form.rules, document_path); !status.ok()) return status;
    const int64_t bytes = engine::StagedBytes(form.storage, form.rules.dim, list.documents(i).num_tokens());
    if (bytes > limits.max_staged_bytes) {
      return InvalidField(absl::StrCat(document_path(), ".num_tokens"),
                          absl::StrCat("is ", list.documents(i).num_tokens(), ", which is ", bytes,
                                       " bytes in the collection's storage type ", std::string(Name(form.storage)),
                                       "; must be at most ", limits.max_staged_bytes, " (engine.max_staged_bytes)"));
    }
    set.inline_offsets.push_back(set.inline_offsets.back() + list.documents(i).num_tokens());
  }
  const auto num_tokens = static_cast<uint64_t>(set.inline_offsets.back());
  set.inline_tokens.reserve(num_tokens * static_cast<size_t>(form.rules.dim) * SizeOf(form.storage));
  for (int i = 0; i < count; ++i) {
    const auto document_path = [&] { return absl::StrCat(path(), ".inline_documents.documents[", i, "]"); };
    float scale = 0;
    absl::Status status = AppendStoredRows(list.documents(i), form, document_path, set.inline_tokens, scale);
    if (!status.ok()) return status;
    if (form.storage == ScalarType::kI8) set.inline_scales.push_back(scale);
  }
  resolved.is_inline = true;
  return absl::OkStatus();
}

}  // namespace

absl::Status UnknownIds(size_t num_missing, size_t num_ids, std::string_view first, FieldPath path) {
  return FieldError(absl::StatusCode::kNotFound, client::kReasonUnknownIds, path(),
                    absl::StrCat(num_missing, " of ", num_ids, " ids are unknown, the first is ", std::string(first),
                                 " (missing_policy is FAIL)"));
}

absl::Status CheckListedIds(const v1::Candidates& candidates, collection::IdType held, std::string_view collection,
                            const RequestLimits& limits, FieldPath path) {
  if (candidates.has_int_ids()) {
    absl::Status status = CheckIdKind(collection, held, collection::IdType::kInt64, path);
    return status.ok() ? CheckListSize(candidates.int_ids().ids_size(), limits, path, "int_ids") : status;
  }
  if (!candidates.has_string_ids()) return absl::OkStatus();
  const v1::StringIds& list = candidates.string_ids();
  absl::Status status = CheckIdKind(collection, held, collection::IdType::kString, path);
  if (status.ok()) status = CheckListSize(list.ids_size(), limits, path, "string_ids");
  for (int i = 0; i < list.ids_size() && status.ok(); ++i) {
    if (IsWrongId(list.ids(i))) status = WrongId(list.ids(i), static_cast<size_t>(i), path);
  }
  return status;
}

std::shared_ptr<const engine::CandidateSet> NarrowCandidates(
    const engine::CandidateSet& candidates, const store::Collection& collection,
    const std::shared_ptr<const store::MatchingDocuments>& matching) {
  auto set = std::make_shared<engine::CandidateSet>(candidates);
  if (candidates.kind == engine::CandidateSet::Kind::kOrdinals) {
    KeepMatching(collection, *matching, *set);
    return set;
  }
  set->kind = engine::CandidateSet::Kind::kMatching;
  set->matching = matching;
  return set;
}

absl::StatusOr<std::shared_ptr<const ResolvedCandidates>> ResolveCandidates(
    const v1::Candidates& candidates, const store::Collection& collection,
    const std::shared_ptr<const store::MatchingDocuments>& matching, const RequestLimits& limits, bool fail_on_missing,
    FieldPath path, const store::MatchingDocuments* visible) {
  auto resolved = std::make_shared<ResolvedCandidates>();
  auto set = std::make_shared<engine::CandidateSet>();
  absl::Status status;
  switch (candidates.kind_case()) {
    case v1::Candidates::kStringIds:
      status =
          ResolveStrings(candidates.string_ids(), collection, limits, fail_on_missing, path, visible, *set, *resolved);
      break;
    case v1::Candidates::kIntIds:
      status = ResolveInts(candidates.int_ids(), collection, limits, fail_on_missing, path, visible, *set, *resolved);
      break;
    case v1::Candidates::kWholeCollection:
      set->kind =
          matching == nullptr ? engine::CandidateSet::Kind::kWholeCollection : engine::CandidateSet::Kind::kMatching;
      set->matching = matching;
      break;
    case v1::Candidates::kInlineDocuments:
      status = ResolveInline(candidates.inline_documents(), collection, limits, path, *set, *resolved);
      break;
    case v1::Candidates::KIND_NOT_SET:
      status = InvalidField(path(), "names none of string_ids, int_ids, whole_collection, inline_documents");
      break;
  }
  if (!status.ok()) return status;
  if (set->kind == engine::CandidateSet::Kind::kOrdinals && matching != nullptr) {
    KeepMatching(collection, *matching, *set);
  }
  resolved->num_documents = set->num_documents(collection);
  resolved->num_tokens = set->kind == engine::CandidateSet::Kind::kOrdinals ? collection.num_tokens(set->ordinals)
                                                                            : set->num_tokens(collection);
  resolved->set = std::move(set);
  return resolved;
}

}  // namespace maxsim::service
