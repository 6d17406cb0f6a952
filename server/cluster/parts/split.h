// Splits a request into one request for each part of the collection that holds some of its candidates. Pure: no
// network, no clock.
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

// For each id that was sent to a part: its index in the list that the client sent, ascending. [ids of the part]
using Positions = std::vector<uint32_t>;

// The request to one part of a collection.
struct PartRequest {
  static constexpr size_t kAnyGroup = std::numeric_limits<size_t>::max();

  size_t part = kAnyGroup;  // index in CollectionView::parts; kAnyGroup for inline documents without a collection
  std::shared_ptr<const v1::RerankRequest> request;
  // Whether the client's own request has `visible`: then the client may not know of all documents. (`request` may have
  // `visible` all the same, to restrict it to the part's slots: restriction.h.)
  bool has_visible = false;
  // [queries of `request`]
  std::vector<int> queries;                                 // per query: its index in the client's request
  std::vector<std::shared_ptr<const Positions>> positions;  // per query: those of its ids; null if it lists no ids
};

// A client's request split into one per part, with everything that merging the answers needs.
struct SplitRequest {
  std::vector<PartRequest> parts;
  std::string request_id;
  service::Page page;     // cut from the merged ranking: each part is also asked for all ranks before the page
  size_t group_size = 0;  // maximum number of documents per group; 0 without group_by
  bool normalize = false;
  bool return_alignments = false;
  bool fail_on_missing = false;
  bool has_int_ids = false;
  bool names_generation = false;  // the client asked for a specific one
  struct Query {
    enum class Kind { kListed, kWhole, kInline };
    Kind kind = Kind::kListed;
    bool has_own_candidates = false;
    uint32_t num_tokens = 0;
    size_t num_ids = 0;  // the number of ids that the client listed
  };
  std::vector<Query> queries;  // as in the request
};

// Splits a request that has passed CheckEnvelope and whose texts have been encoded. `collection` may be null if all
// candidates are inline documents. `turn` chooses the part that gets the inline documents, which are moved out of the
// request. Returns the errors of a single server that can be found without the documents: INVALID_ARGUMENT for wrong
// ids, FAILED_PRECONDITION if the request names another generation.
absl::StatusOr<SplitRequest> SplitRerank(v1::RerankRequest& request, const CollectionView* collection,
                                         const service::RequestLimits& limits, uint64_t turn);

// Moves the inline documents that SplitRerank took out back into the request, so that it can be split again.
void ReturnInlineDocuments(const SplitRequest& split, v1::RerankRequest& request);

// Returns INVALID_ARGUMENT if a request asks for a minimum sequence although the collection is not live, or the groups
// have separate logs.
absl::Status CheckMinSequence(uint64_t min_sequence, const CollectionView& collection);

}  // namespace maxsim::cluster
