#include "loadtest/run/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "client/messages.h"
#include "collection/evaluation/query_set.h"
#include "loadtest/random/popularity.h"
#include "loadtest/random/random.h"

namespace maxsim::loadtest {
namespace {

// No more requests are prepared after this many ids have been drawn, which takes seconds (some 100 ns per id).
constexpr uint64_t kMaxDrawnIds = 16'000'000;
constexpr size_t kMinRequests = 4;
// Number of rows in the table that synthetic tokens are taken from. The values do not change how long scoring takes,
// and drawing fresh tokens for an inline document would take longer than scoring it.
constexpr size_t kTableRows = 8192;

// The streams of random numbers (MixSeed). Each kind of thing that is drawn has a stream of its own.
enum RandomStream : uint64_t { kTokenValues = 1, kQueryTokens, kDocumentTokens, kCandidateIds, kRanks };

}  // namespace

// A table of random unit vectors, [kTableRows, dim] of one type.
class TokenTable {
 public:
  TokenTable(uint32_t dim, ScalarType type, uint64_t seed) : dim_(dim), type_(type) {
    Random random(seed);
    std::vector<float> row(dim);
    const size_t row_bytes = dim * SizeOf(type);
    rows_.resize(kTableRows * row_bytes);
    for (size_t i = 0; i < kTableRows; ++i) {
      double square = 0;
      for (float& value : row) {
        value = static_cast<float>(random.Normal());
        square += static_cast<double>(value) * value;
      }
      const auto scale = static_cast<float>(1 / std::sqrt(std::max(square, 1e-12)));
      for (float& value : row) value *= scale;
      ConvertElements(ScalarType::kF32, row.data(), type, rows_.data() + i * row_bytes, dim);
    }
  }

  v1::TokenMatrix Draw(uint32_t num_tokens, Random& random) const {
    const size_t row_bytes = dim_ * SizeOf(type_);
    std::string bytes;
    bytes.reserve(num_tokens * row_bytes);
    for (uint32_t i = 0; i < num_tokens; ++i) bytes.append(rows_, random.Below(kTableRows) * row_bytes, row_bytes);
    return client::MakeTokens(static_cast<v1::DataType>(type_), num_tokens, dim_, std::move(bytes));
  }

 private:
  const uint32_t dim_;
  const ScalarType type_;
  std::string rows_;
};

namespace {

absl::StatusOr<v1::CollectionInfo> FindCollection(const v1::GetInfoResponse& info, const std::string& name) {
  std::string names;
  for (const v1::CollectionInfo& collection : info.collections()) {
    if (collection.name() == name) return collection;
    absl::StrAppend(&names, names.empty() ? "" : ", ", collection.name());
  }
  return absl::NotFoundError(
      absl::StrCat("--collection: the server has no \"", name, "\"; it has ", names.empty() ? "none" : names));
}

// Returns INVALID_ARGUMENT if a flag's value exceeds a limit of the server. 0 stands for no limit, because servers that
// are not maxsimd may leave limits out.
absl::Status Within(const char* flag, uint64_t value, uint64_t limit, const char* limit_name) {
  if (limit == 0 || value <= limit) return absl::OkStatus();
  return Invalid(flag, ": ", value, " is more than the server's ", limit_name, ", ", limit);
}

}  // namespace

class WorkloadBuilder {
 public:
  WorkloadBuilder(const WorkloadOptions& options, const v1::GetInfoResponse& info, v1::CollectionInfo collection)
      : options_(options),
        limits_(info.limits()),
        collection_(std::move(collection)),
        query_random_(MixSeed(options.seed, kQueryTokens)),
        document_random_(MixSeed(options.seed, kDocumentTokens)),
        id_random_(MixSeed(options.seed, kCandidateIds)) {}

  absl::StatusOr<std::unique_ptr<Workload>> Build(const Workload::ShouldContinue& should_continue) {
    if (absl::Status status = CheckLimits(); !status.ok()) return status;
    if (absl::Status status = ReadQueries(); !status.ok()) return status;
    if (absl::Status status = ReadIds(); !status.ok()) return status;
    if (!queries_.has_value() || options_.candidates == CandidateKind::kInline) {
      table_.emplace(collection_.dim(), options_.dtype, MixSeed(options_.seed, kTokenValues));
    }
    uint64_t drawn_ids = 0;
    while (workload_->size() < options_.pool_requests &&
           (workload_->size() < kMinRequests ||
            (workload_->total_bytes_ < options_.pool_bytes && drawn_ids < kMaxDrawnIds))) {
      if (should_continue && !should_continue(workload_->size())) {
        return absl::CancelledError(
            Cat("ended when ", workload_->size(), " requests were prepared, before the measurement began"));
      }
      std::vector<std::vector<uint64_t>> lists;
      const v1::RerankRequest request = MakeRequest(lists);
      const uint64_t size_bytes = request.ByteSizeLong();
      if (absl::Status status =
              Within("bytes of a request", size_bytes, limits_.max_request_bytes(), "limits.max_request_bytes");
          !status.ok()) {
        return status;
      }
      for (const std::vector<uint64_t>& list : lists) drawn_ids += list.size();
      workload_->total_bytes_ += size_bytes;
      workload_->requests_.push_back(
          std::make_unique<PreparedRequest>(request, std::move(lists), num_candidates_,
                                            workload_->ids_.has_value() ? &*workload_->ids_ : nullptr, options_.check,
                                            options_.candidates == CandidateKind::kWholeCollection &&
                                                (collection_.has_live() || collection_.has_partition())));
    }
    workload_->num_candidates_ = num_candidates_;
    Describe();
    return std::move(workload_);
  }

 private:
  absl::Status CheckLimits() const {
    const bool inline_documents = options_.candidates == CandidateKind::kInline;
    for (const absl::Status& status : {
             Within("--queries-per-request", options_.queries_per_request, limits_.max_queries_per_request(),
                    "limits.max_queries_per_request"),
             Within("--top-k", options_.top_k, limits_.max_top_k(), "limits.max_top_k"),
             Within("--query-tokens", options_.query_tokens.max(), limits_.max_query_tokens(),
                    "limits.max_query_tokens"),
             inline_documents ? Within("--candidates inline", options_.num_candidates, limits_.max_inline_documents(),
                                       "limits.max_inline_documents")
                              : absl::OkStatus(),
             inline_documents ? Within("--document-tokens", options_.document_tokens.max(),
                                       limits_.max_document_tokens(), "limits.max_document_tokens")
                              : absl::OkStatus(),
             options_.candidates == CandidateKind::kIds
                 ? Within("--candidates", options_.num_candidates, limits_.max_candidates_per_query(),
                          "limits.max_candidates_per_query")
                 : absl::OkStatus(),
         }) {
      if (!status.ok()) return status;
    }
    // A server that is not maxsimd may leave the state unspecified.
    if (collection_.state() != v1::COLLECTION_STATE_READY && collection_.state() != v1::COLLECTION_STATE_UNSPECIFIED) {
      return absl::FailedPreconditionError(
          absl::StrCat("the collection \"", collection_.name(), "\" is not ready: ", collection_.error()));
    }
    return absl::OkStatus();
  }

  absl::Status ReadQueries() {
    if (options_.queries_file.empty()) return absl::OkStatus();
    absl::StatusOr<evaluation::QuerySet> queries =
        evaluation::QuerySet::Read(options_.queries_file, options_.query_lengths_file);
    if (!queries.ok()) return queries.status();
    if (queries->dim() != static_cast<int64_t>(collection_.dim())) {
      return Invalid("--queries ", options_.queries_file, ": the dimension is ", queries->dim(),
                     ", but the collection's is ", collection_.dim());
    }
    for (int64_t i = 0; i < queries->size(); ++i) {
      absl::Status status = Within("tokens of a recorded query", static_cast<uint64_t>(queries->num_tokens(i)),
                                   limits_.max_query_tokens(), "limits.max_query_tokens");
      if (!status.ok()) return status;
    }
    queries_ = *std::move(queries);
    return absl::OkStatus();
  }

  absl::Status ReadIds() {
    num_candidates_ =
        options_.candidates == CandidateKind::kWholeCollection ? collection_.num_documents() : options_.num_candidates;
    if (options_.candidates != CandidateKind::kIds) return absl::OkStatus();
    if (!options_.ids_file.empty()) {
      absl::StatusOr<IdSet> ids = IdSet::FromFile(options_.ids_file, collection_.id_type());
      if (!ids.ok()) return ids.status();
      workload_->ids_ = *std::move(ids);
    } else {
      workload_->ids_ = IdSet::Numbered(options_.int_ids, options_.id_prefix);
    }
    if (collection_.id_type() != v1::ID_TYPE_UNSPECIFIED && workload_->ids_->type() != collection_.id_type()) {
      return Invalid("the collection has ", collection_.id_type() == v1::ID_TYPE_STRING ? "string" : "integer",
                     " ids: give --ids FILE, or --int-ids N ",
                     collection_.id_type() == v1::ID_TYPE_STRING ? "with" : "without", " --id-prefix");
    }
    if (workload_->ids_->size() < options_.num_candidates) {
      return Invalid("--candidates: ", options_.num_candidates, " is more than the ", workload_->ids_->size(),
                     " ids there are");
    }
    popularity_.emplace(workload_->ids_->size(), options_.zipf_exponent, MixSeed(options_.seed, kRanks));
    return absl::OkStatus();
  }

  v1::TokenMatrix NextQuery() {
    if (!queries_.has_value()) return table_->Draw(options_.query_tokens.Sample(query_random_), query_random_);
    const int64_t query = next_query_++ % queries_->size();
    return client::MakeTokens(static_cast<v1::DataType>(queries_->type()),
                              static_cast<uint32_t>(queries_->num_tokens(query)),
                              static_cast<uint32_t>(queries_->dim()), std::string(queries_->bytes(query)));
  }

  v1::Candidates NextCandidates(std::vector<std::vector<uint64_t>>& lists) {
    if (options_.candidates == CandidateKind::kWholeCollection) return client::WholeCollection();
    if (options_.candidates == CandidateKind::kIds) {
      lists.push_back(popularity_->SampleDistinct(options_.num_candidates, id_random_));
      return workload_->ids_->Candidates(lists.back());
    }
    v1::Candidates candidates;
    for (uint64_t i = 0; i < options_.num_candidates; ++i) {
      *candidates.mutable_inline_documents()->add_documents() =
          table_->Draw(options_.document_tokens.Sample(document_random_), document_random_);
    }
    return candidates;
  }

  v1::RerankRequest MakeRequest(std::vector<std::vector<uint64_t>>& lists) {
    v1::RerankRequest request;
    request.set_collection(options_.collection);
    request.set_top_k(options_.top_k);
    request.set_priority(options_.priority);
    if (!options_.filter.empty()) request.set_filter_text(options_.filter);
    request.set_missing_policy(
        v1::MISSING_POLICY_FAIL);  // otherwise the server would skip unknown ids, and do less work than intended
    if (options_.shared_candidates) *request.mutable_candidates() = NextCandidates(lists);
    for (uint32_t i = 0; i < options_.queries_per_request; ++i) {
      v1::Query& query = *request.add_queries();
      *query.mutable_tokens() = NextQuery();
      if (!options_.shared_candidates) *query.mutable_candidates() = NextCandidates(lists);
    }
    return request;
  }

  void Describe() {
    std::string& text = workload_->description_;
    switch (options_.candidates) {
      case CandidateKind::kIds:
        text = Cat(FormatCount(static_cast<int64_t>(num_candidates_)), " of ",
                   FormatCount(static_cast<int64_t>(workload_->ids_->size())), " ids a query",
                   options_.zipf_exponent > 0 ? Cat(", Zipf ", options_.zipf_exponent) : "");
        break;
      case CandidateKind::kWholeCollection:
        text = num_candidates_ == 0
                   ? "all documents that the token may see"
                   : Cat("all ", FormatCount(static_cast<int64_t>(num_candidates_)), " documents a query");
        break;
      case CandidateKind::kInline:
        text = Cat(FormatCount(static_cast<int64_t>(num_candidates_)), " inline documents a query, of ",
                   options_.document_tokens.text(), " tokens");
        break;
    }
    if (!options_.filter.empty()) absl::StrAppend(&text, " that match ", options_.filter);
    absl::StrAppend(&text, "; ",
                    queries_.has_value() ? Cat(queries_->size(), " recorded queries")
                                         : Cat("queries of ", options_.query_tokens.text(), " tokens"),
                    ", ", options_.queries_per_request, " a request");
  }

  const WorkloadOptions& options_;
  const v1::Limits& limits_;
  const v1::CollectionInfo collection_;
  std::unique_ptr<Workload> workload_{new Workload};
  std::optional<evaluation::QuerySet> queries_;
  std::optional<TokenTable> table_;
  std::optional<Popularity> popularity_;
  Random query_random_, document_random_, id_random_;
  uint64_t num_candidates_ = 0;
  int64_t next_query_ = 0;
};

absl::StatusOr<std::unique_ptr<Workload>> Workload::Prepare(const WorkloadOptions& options,
                                                            const v1::GetInfoResponse& info,
                                                            const ShouldContinue& should_continue) {
  absl::StatusOr<v1::CollectionInfo> collection = FindCollection(info, options.collection);
  if (!collection.ok()) return collection.status();
  return WorkloadBuilder(options, info, *std::move(collection)).Build(should_continue);
}

}  // namespace maxsim::loadtest
