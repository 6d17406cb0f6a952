// Chooses the server from which an empty server fetches a collection.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// A server, and its answer to GetInfo.
struct PeerReport {
  std::string address;
  absl::StatusOr<v1::GetInfoResponse> info;
};

struct RankedPeers {
  // Servers that serve the collection, with all wanted slots and at least one write. The server that has applied the
  // most writes comes first; of equal ones, the one that comes first in the reports.
  std::vector<std::string> addresses;
  // Why each other server cannot be used, for people; "" if all can be used.
  std::string others;
};

RankedPeers RankPeers(const std::vector<PeerReport>& reports, const std::string& collection,
                      const collection::SlotRange& wanted);

}  // namespace maxsim::service
