#include "server/cluster/parts/check_documents.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"
#include "server/cluster/parts/deal_documents.h"
#include "server/service/documents/document_delete.h"
#include "server/service/documents/document_reader.h"

namespace maxsim::cluster {
namespace {

using Fault = std::optional<AnswerFault>;

template <typename... Args>
Fault Wrong(const char* field, const Args&... message) {
  return AnswerFault{field, absl::StrCat(message...)};
}

template <typename Response>
Fault CheckWrites(int num_writes, bool is_delete, const Response& answer) {
  if (answer.results_size() != num_writes) {
    return Wrong("results", "results has ", answer.results_size(), " elements, but ", num_writes, " writes were sent");
  }
  for (int i = 0; i < num_writes; ++i) {
    const v1::WriteResult& result = answer.results(i);
    const v1::WriteOutcome outcome = result.outcome();
    if (outcome != v1::WRITE_OUTCOME_APPLIED && outcome != v1::WRITE_OUTCOME_STALE &&
        (outcome != v1::WRITE_OUTCOME_NOT_FOUND || !is_delete)) {
      return Wrong("outcome", "results[", i, "].outcome is ", static_cast<int>(outcome),
                   ", which this kind of write cannot have");
    }
    if (result.sequence() > answer.sequence() || (outcome == v1::WRITE_OUTCOME_APPLIED && result.sequence() == 0)) {
      return Wrong("sequence", "results[", i, "].sequence is ", result.sequence(), ", but the collection's is ",
                   answer.sequence());
    }
  }
  return std::nullopt;
}

Fault CheckMatchingDelete(const v1::DeleteRequest& request, const v1::DeleteResponse& answer) {
  if (answer.results_size() > 0) {
    return Wrong("results", "results has ", answer.results_size(), " elements, but a delete with a filter has none");
  }
  if (answer.sequence() < request.min_sequence()) {
    return Wrong("sequence", "sequence is ", answer.sequence(), ", but at least ", request.min_sequence(),
                 " was asked for");
  }
  // Each number is checked before the sum, because the sum may wrap around.
  constexpr auto kMaxFound = static_cast<uint64_t>(service::kMaxDeleteIds);
  if (answer.num_deleted() > kMaxFound || answer.num_missing() > kMaxFound || answer.num_stale() > kMaxFound ||
      answer.num_deleted() + answer.num_missing() + answer.num_stale() > kMaxFound) {
    return Wrong("num_deleted", "num_deleted is ", answer.num_deleted(), ", num_missing ", answer.num_missing(),
                 " and num_stale ", answer.num_stale(), ", but one call deletes at most ", kMaxFound, " documents");
  }
  if (answer.num_deleted() > answer.sequence()) {
    return Wrong("num_deleted", "num_deleted is ", answer.num_deleted(), ", but the collection has only ",
                 answer.sequence(), " writes");
  }
  if (answer.num_stale() > 0 && request.version() == 0) {
    return Wrong("num_stale", "num_stale is ", answer.num_stale(), ", but the request has no version");
  }
  if (answer.has_more() && answer.num_deleted() + answer.num_missing() + answer.num_stale() == 0) {
    return Wrong("has_more", "has_more is set, but no document was found");
  }
  return std::nullopt;
}

bool HasId(const v1::GetRequest& request, int idx, const v1::StoredDocument& document) {
  if (request.has_int_ids()) return document.has_int_id() && document.int_id() == request.int_ids().ids(idx);
  return document.has_string_id() && document.string_id() == request.string_ids().ids(idx);
}

template <typename Ids>
Fault CheckIdsRead(const v1::GetRequest& request, const Ids& sent, const Ids& missing, int missing_of_other_kind,
                   const v1::GetResponse& answer) {
  int documents = 0;
  int num_missing = 0;
  for (int i = 0; i < sent.size(); ++i) {
    if (documents < answer.documents_size() && HasId(request, i, answer.documents(documents))) {
      ++documents;
    } else if (num_missing < missing.size() && missing.Get(num_missing) == sent.Get(i)) {
      ++num_missing;
    } else {
      return Wrong("ids", "ids[", i, "] is neither in documents nor missing");
    }
  }
  if (documents == answer.documents_size() && num_missing == missing.size() && missing_of_other_kind == 0) {
    return std::nullopt;
  }
  return Wrong("ids", "documents has ", answer.documents_size(), " and missing ",
               missing.size() + missing_of_other_kind, " elements, but ", sent.size(), " ids were asked for");
}

}  // namespace

std::optional<AnswerFault> CheckUpsertAnswer(const v1::UpsertRequest& request, const v1::UpsertResponse& answer) {
  if (Fault fault = CheckWrites(request.documents_size(), /*is_delete=*/false, answer); fault.has_value()) return fault;
  const auto num_texts =
      static_cast<uint64_t>(std::count_if(request.documents().begin(), request.documents().end(),
                                          [](const v1::Document& document) { return !document.text().empty(); }));
  if (answer.encoded_tokens() <= num_texts * kMaxDocumentTokens) return std::nullopt;
  return Wrong("encoded_tokens", "encoded_tokens is ", answer.encoded_tokens(), " for ", num_texts, " texts");
}

std::optional<AnswerFault> CheckDeleteAnswer(const v1::DeleteRequest& request, const v1::DeleteResponse& answer) {
  if (service::HasFilter(request)) return CheckMatchingDelete(request, answer);
  const int num_ids = request.has_int_ids() ? request.int_ids().ids_size() : request.string_ids().ids_size();
  return CheckWrites(num_ids, /*is_delete=*/true, answer);
}

std::optional<AnswerFault> CheckStoredDocument(bool has_tokens, const StoredShape& shape,
                                               const v1::StoredDocument& document, int idx) {
  if (document.num_tokens() < 1 || document.num_tokens() > kMaxDocumentTokens) {
    return Wrong("num_tokens", "documents[", idx, "].num_tokens is ", document.num_tokens(), "; must be 1 to ",
                 kMaxDocumentTokens);
  }
  if (!std::isfinite(document.scale())) {
    return Wrong("scale", "documents[", idx, "].scale is ", document.scale(), ", and must be finite");
  }
  const v1::TokenMatrix& tokens = document.tokens();
  if (!has_tokens) {
    if (!document.has_tokens()) return std::nullopt;
    return Wrong("tokens", "documents[", idx, "].tokens is set, but was not asked for");
  }
  const ScalarType type = service::ReadType(ScalarTypeOf(shape.storage));
  const uint64_t bytes = uint64_t{document.num_tokens()} * shape.dim * SizeOf(type);
  if (tokens.dtype() == static_cast<v1::DataType>(type) && tokens.num_tokens() == document.num_tokens() &&
      tokens.dim() == shape.dim && tokens.data().size() == bytes) {
    return std::nullopt;
  }
  return Wrong("tokens", "documents[", idx, "].tokens has ", tokens.num_tokens(), " x ", tokens.dim(), " values in ",
               tokens.data().size(), " bytes, but ", document.num_tokens(), " x ", shape.dim, " in ", bytes,
               " belong to it");
}

std::optional<AnswerFault> CheckGetAnswer(const v1::GetRequest& request, const StoredShape& shape,
                                          const v1::GetResponse& answer) {
  if (answer.sequence() < request.min_sequence()) {
    return Wrong("sequence", "sequence is ", answer.sequence(), ", but at least ", request.min_sequence(),
                 " was asked for");
  }
  Fault fault = request.has_int_ids()
                    ? CheckIdsRead(request, request.int_ids().ids(), answer.missing_int_ids().ids(),
                                   answer.missing_string_ids().ids_size(), answer)
                    : CheckIdsRead(request, request.string_ids().ids(), answer.missing_string_ids().ids(),
                                   answer.missing_int_ids().ids_size(), answer);
  for (int i = 0; i < answer.documents_size() && !fault.has_value(); ++i) {
    fault = CheckStoredDocument(request.return_tokens(), shape, answer.documents(i), i);
  }
  return fault;
}

}  // namespace maxsim::cluster
