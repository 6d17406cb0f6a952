// Splits a request into those of the groups that hold its candidates. Pure: no network, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/view.h"
#include "server/service/call/limits.h"
#include "server/service/page/page.h"

namespace maxsim::cluster {

// Where the ids of a list that went to a part stood in the list as the client sent it, ascending. [ids of the part]
using Positions = std::vector<uint32_t>;

// What one part of a collection is asked.
struct PartRequest {
  static constexpr size_t kAnyGroup = std::numeric_limits<size_t>::max();

  size_t part = kAnyGroup;  // index in CollectionView::parts; kAnyGroup: inline documents without a collection
  std::shared_ptr<const v1::RerankRequest> request;
  // [queries of `request`]
  std::vector<int> queries;                                 // which query of the client's request each is
  std::vector<std::shared_ptr<const Positions>> positions;  // of its candidates; null where they are not listed ids
};

// What a request is, and what its answer is made of.
struct SplitRequest {
  std::vector<PartRequest> parts;
  std::string request_id;
  service::Page page;     // cut from the merged ranking: each part is asked for all ranks before it as well
  size_t group_size = 0;  // documents of a group at most; 0 without group_by
  bool normalize = false;
  bool return_alignments = false;
  bool fail_on_missing = false;
  bool has_int_ids = false;
  bool names_generation = false;  // The client asked for one.
  struct Query {
    enum class Kind { kListed, kWhole, kInline };
    Kind kind = Kind::kListed;
    bool has_own_candidates = false;
    uint32_t num_tokens = 0;
    size_t num_ids = 0;  // listed, as sent
  };
  std::vector<Query> queries;  // as in the request
};

// Splits a request that has passed CheckEnvelope and whose texts have been encoded. `collection` may be null where all
// candidates are inline documents. `turn` says which part takes inline documents: they are taken out of the request.
// Errors are those of a server for the whole request, as far as they are known without the documents: INVALID_ARGUMENT
// for ids that are wrong; FAILED_PRECONDITION for another generation than the request asks for.
absl::StatusOr<SplitRequest> SplitRerank(v1::RerankRequest& request, const CollectionView* collection,
                                         const service::RequestLimits& limits, uint64_t turn);

// Gives a request back the inline documents that SplitRerank took out of it, so that it can be split anew.
void ReturnInlineDocuments(const SplitRequest& split, v1::RerankRequest& request);

// Returns INVALID_ARGUMENT for a sequence that is asked of groups with logs of their own.
absl::Status CheckMinSequence(uint64_t min_sequence, const CollectionView& collection);

}  // namespace maxsim::cluster
