#include "server/service/bootstrap/rank_peers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/text.h"
#include "client/slot_message.h"

namespace maxsim::service {
namespace {

// The longest part of a peer's own error that is shown.
constexpr size_t kMaxPeerError = 200;

// Returns the sequence (last write) of the collection at a server that can send it, or the reason why the server
// cannot.
absl::StatusOr<uint64_t> SequenceOf(const PeerReport& report, const std::string& name,
                                    const collection::SlotRange& wanted) {
  if (!report.info.ok()) {
    return absl::UnavailableError(
        Cat("does not answer: ", Printable(std::string(report.info.status().message()), kMaxPeerError)));
  }
  const auto& all = report.info->collections();
  const auto info =
      std::find_if(all.begin(), all.end(), [&](const v1::CollectionInfo& one) { return one.name() == name; });
  if (info == all.end()) return absl::NotFoundError("does not have it");
  if (info->state() != v1::COLLECTION_STATE_READY) return absl::UnavailableError("does not serve it yet");
  if (info->live().log() != "nats") return absl::FailedPreconditionError("has it without a stream");
  const absl::StatusOr<collection::SlotRange> slots = client::SlotsOfSnapshot(*info);
  if (!slots.ok()) return slots.status();
  if (slots->first > wanted.first || slots->end < wanted.end) {
    return absl::FailedPreconditionError(
        Cat("has only ", collection::DescribeSlots(*slots), " of ", collection::DescribeSlots(wanted)));
  }
  // Without writes there is nothing to fetch: the stream has everything.
  if (info->live().sequence() == 0) return absl::NotFoundError("has no write of it");
  return info->live().sequence();
}

}  // namespace

RankedPeers RankPeers(const std::vector<PeerReport>& reports, const std::string& collection,
                      const collection::SlotRange& wanted) {
  RankedPeers ranked;
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const PeerReport& report : reports) {
    const absl::StatusOr<uint64_t> sequence = SequenceOf(report, collection, wanted);
    if (sequence.ok()) {
      found.emplace_back(*sequence, report.address);
    } else {
      ranked.others +=
          Cat(ranked.others.empty() ? "" : "; ", report.address, " ", std::string(sequence.status().message()));
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (auto& [sequence, address] : found) ranked.addresses.push_back(std::move(address));
  return ranked;
}

}  // namespace maxsim::service
