#include "server/store/memory/residency.h"

namespace maxsim::store {

std::string_view Name(Residency residency) {
  switch (residency) {
    case Residency::kAuto:
      return "auto";
    case Residency::kGpu:
      return "gpu";
    case Residency::kHost:
      return "host";
    case Residency::kDisk:
      return "disk";
  }
  return "?";
}

std::optional<Residency> ResidencyFromName(std::string_view name) {
  for (Residency residency : {Residency::kAuto, Residency::kGpu, Residency::kHost, Residency::kDisk}) {
    if (Name(residency) == name) return residency;
  }
  return std::nullopt;
}

std::string_view Name(Replication replication) {
  switch (replication) {
    case Replication::kAuto:
      return "auto";
    case Replication::kOn:
      return "true";
    case Replication::kOff:
      return "false";
  }
  return "?";
}

std::optional<Replication> ReplicationFromName(std::string_view name) {
  for (Replication replication : {Replication::kAuto, Replication::kOn, Replication::kOff}) {
    if (Name(replication) == name) return replication;
  }
  return std::nullopt;
}

}  // namespace maxsim::store
