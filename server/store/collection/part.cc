#include "server/store/collection/part.h"

#include <algorithm>

#include "kernels/codes/code_layout.h"

namespace maxsim::store {

const Documents* Part::DocumentsOn(uint32_t device) const {
  for (const Replica& replica : replicas) {
    if (replica.device == device) return replica.documents.get();
  }
  return nullptr;
}

const LoadedCodes* Part::CodesOn(uint32_t device) const {
  for (const Replica& replica : replicas) {
    if (replica.device == device) return replica.codes.get();
  }
  return nullptr;
}

int Part::code_planes() const {
  int planes = kMaxPlanes;
  for (const Replica& replica : replicas) {
    planes = std::min(planes, replica.codes == nullptr ? 0 : replica.codes->planes());
  }
  return planes;
}

bool Part::IsAvailable(const DeviceSet& devices) const {
  return std::any_of(replicas.begin(), replicas.end(),
                     [&](const Replica& replica) { return devices.alive(replica.device); });
}

bool ScanFilter::HasTombstone(uint32_t ordinal) const {
  return std::binary_search(tombstones.begin(), tombstones.end(), ordinal);
}

}  // namespace maxsim::store
