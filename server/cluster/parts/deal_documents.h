// Splits the documents or ids of a call of the Documents service among the groups that hold their slots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/slots.h"
#include "maxsim/v1/documents.pb.h"
#include "server/cluster/groups/group_call.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/observed/collection_report.h"
#include "server/cluster/observed/slot_layout.h"
#include "server/cluster/parts/restriction.h"
#include "server/cluster/parts/split.h"
#include "server/service/call/limits.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_write.h"
#include "server/service/request/stored_rows.h"

namespace maxsim::cluster {

// Maps the index of a part to the items of the call (documents or ids) that go to it. Parts without items are absent.
using Dealt = std::map<size_t, Positions>;

inline ScalarType ScalarTypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F32:
      return ScalarType::kF32;
    case v1::DATA_TYPE_BF16:
      return ScalarType::kBF16;
    case v1::DATA_TYPE_I8:
      return ScalarType::kI8;
    case v1::DATA_TYPE_RESIDUAL_1:
    case v1::DATA_TYPE_RESIDUAL_2:
    case v1::DATA_TYPE_RESIDUAL_4:
    case v1::DATA_TYPE_RESIDUAL_8:
      return static_cast<ScalarType>(type);
    default:
      return ScalarType::kF16;
  }
}

inline service::DocumentRules RulesOf(const CollectionView& collection, const service::RequestLimits& limits) {
  return {.collection = collection.name,
          .id_type = collection.has_int_ids() ? collection::IdType::kInt64 : collection::IdType::kString,
          .slots = {},
          .form = service::StoredFormOf(ScalarTypeOf(collection.info.storage()),
                                        static_cast<int32_t>(collection.info.dim()), collection.info.rotation_seed(),
                                        limits),
          .refuse_lossy_tokens = limits.refuse_lossy_tokens};
}

template <typename Ids>
Dealt DealIds(const CollectionView& collection, const Ids& ids) {
  Dealt dealt;
  for (int i = 0; i < ids.size(); ++i) {
    dealt[collection.PartIndexOf(collection::SlotOf(ids.Get(i)))].push_back(static_cast<uint32_t>(i));
  }
  return dealt;
}

// Checks the ids of a Delete or a Get, and assigns each to its part.
template <typename Request>
absl::StatusOr<Dealt> CheckAndDeal(const Request& request, const CollectionView& collection,
                                   const service::RequestLimits& limits, int max_ids) {
  const service::DocumentRules rules = RulesOf(collection, limits);
  if (request.has_string_ids()) {
    if (absl::Status s = service::CheckIds(request.string_ids(), rules, max_ids); !s.ok()) return s;
    return DealIds(collection, request.string_ids().ids());
  }
  if (request.has_int_ids()) {
    if (absl::Status s = service::CheckIds(request.int_ids(), rules, max_ids); !s.ok()) return s;
    return DealIds(collection, request.int_ids().ids());
  }
  return service::InvalidField("ids", "neither string_ids nor int_ids is set");
}

template <typename Request>
void CopyIds(const Request& from, const Positions& positions, Request& to) {
  for (const uint32_t position : positions) {
    if (from.has_int_ids()) {
      to.mutable_int_ids()->add_ids(from.int_ids().ids(static_cast<int>(position)));
    } else {
      *to.mutable_string_ids()->add_ids() = from.string_ids().ids(static_cast<int>(position));
    }
  }
}

// Returns the replicas of a part that can take writes to the collection, by their last reports, which may be newer than
// the view that `part` is from. Leaves out replicas that no longer hold all slots of a restricted part. Also leaves out
// replicas that cannot write, for example because they have lost the stream, unless none would be left.
inline CallTarget ForWrites(const CollectionView::Part& part, const std::string& collection) {
  CallTarget target{.group = part.target.group, .replicas = {}};
  Replicas unable;
  for (const std::shared_ptr<Replica>& replica : part.target.replicas) {
    const std::shared_ptr<const v1::GetInfoResponse> info = replica->info();
    const v1::CollectionInfo* const report = ReportAbout(collection, info.get());
    if (part.is_restricted && report != nullptr && !Holds(*report, part.slots)) continue;
    (report != nullptr && !report->live().error().empty() ? unable : target.replicas).push_back(replica);
  }
  if (target.replicas.empty()) target.replicas = std::move(unable);
  return target;
}

// The requests that one client call is split into, and which of the client's items each of them has. Each list has one
// entry per part that gets items.
template <typename Request>
struct DealtCall {
  static constexpr bool kIsWrite =
      std::is_same_v<Request, v1::UpsertRequest> || std::is_same_v<Request, v1::DeleteRequest>;

  std::vector<CallTarget> targets;
  std::vector<std::shared_ptr<const Request>> requests;
  std::vector<std::string> groups;
  std::vector<Positions> positions;
  bool one_log = false;  // the sequences of all parts come from one log

  void Add(const CollectionView::Part& part, Positions items, std::shared_ptr<const Request> request) {
    targets.push_back(kIsWrite ? ForWrites(part, request->collection()) : part.target);
    groups.push_back(part.target.group->name());
    positions.push_back(std::move(items));
    requests.push_back(std::move(request));
  }
};

// Checks the ids of a Delete or a Get, and adds one request for each part that holds some of them. `fill` sets the
// fields of a request other than `collection`, `visible` and the ids.
template <typename Request, typename Fill>
absl::Status PartitionRequest(const Request& request, const CollectionView& collection,
                              const service::RequestLimits& limits, int max_ids, Fill fill, DealtCall<Request>& sent) {
  absl::StatusOr<Dealt> dealt = CheckAndDeal(request, collection, limits, max_ids);
  if (!dealt.ok()) return dealt.status();
  sent.one_log = collection.has_one_log();
  for (auto& [part, positions] : *dealt) {
    auto of_part = std::make_shared<Request>();
    of_part->set_collection(request.collection());
    if (request.has_visible()) *of_part->mutable_visible() = request.visible();
    fill(*of_part);
    // Writes need no restriction: a server refuses ids of slots that it does not hold.
    if constexpr (std::is_same_v<Request, v1::GetRequest>) RestrictToSlots(collection.parts[part], *of_part);
    CopyIds(request, positions, *of_part);
    sent.Add(collection.parts[part], std::move(positions), std::move(of_part));
  }
  return absl::OkStatus();
}

// Checks the documents of an Upsert, and moves them into one request for each part that gets some of them.
inline absl::Status PartitionDocuments(v1::UpsertRequest& request, const CollectionView& collection,
                                       const service::RequestLimits& limits, DealtCall<v1::UpsertRequest>& sent) {
  const service::DocumentRules rules = RulesOf(collection, limits);
  if (absl::Status s = service::CheckDocuments(request, rules); !s.ok()) return s;
  Dealt dealt;
  for (int i = 0; i < request.documents_size(); ++i) {
    const v1::Document& document = request.documents(i);
    // Values are checked here, because otherwise one group might refuse its part after others have carried out theirs.
    absl::Status checked = service::CheckValues(document, rules, [i] { return service::DocumentPath(i); });
    if (!checked.ok()) return checked;
    const int32_t slot = document.has_int_id() ? collection::SlotOf(document.int_id())
                                               : collection::SlotOf(std::string_view(document.string_id()));
    dealt[collection.PartIndexOf(slot)].push_back(static_cast<uint32_t>(i));
  }
  sent.one_log = collection.has_one_log();
  for (auto& [part, positions] : dealt) {
    auto of_part = std::make_shared<v1::UpsertRequest>();
    of_part->set_collection(request.collection());
    if (request.has_visible()) *of_part->mutable_visible() = request.visible();
    for (const uint32_t position : positions) {
      *of_part->add_documents() = std::move(*request.mutable_documents(static_cast<int>(position)));
    }
    sent.Add(collection.parts[part], std::move(positions), std::move(of_part));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::cluster
