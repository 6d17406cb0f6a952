#include "server/config/cluster_keys.h"

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/text.h"
#include "collection/slots.h"

namespace maxsim::config {
namespace {

// Its value comes back as FIRST-LAST, however it was written.
Key PartitionKey() {
  return {
      .name = "cluster.partition",
      .type = "I/N|FIRST-LAST",
      .range = Cat("slots 0 to ", collection::kNumSlots - 1),
      .help =
          "The partition that each collection of this server must be, and that one which is created is: partition I "
          "of N, counted from 0, or the slots FIRST to LAST; empty: any.",
      .set =
          [](std::string_view text, Config& config) {
            if (text.empty()) {
              config.store.partition.reset();
              return absl::OkStatus();
            }
            const absl::StatusOr<collection::SlotRange> slots = collection::ParseSlotRange(text);
            if (slots.ok()) config.store.partition = *slots;
            return slots.status();
          },
      .get =
          [](const Config& config) {
            return config.store.partition.has_value() ? collection::FormatSlotRange(*config.store.partition)
                                                      : std::string();
          }};
}

}  // namespace

void AddClusterKeys(std::vector<Key>& keys) { keys.push_back(PartitionKey()); }

}  // namespace maxsim::config
