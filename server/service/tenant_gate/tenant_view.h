// Hides facts about the server and its collections from tenants.
#pragma once

#include <vector>

#include "maxsim/v1/rerank.pb.h"
#include "server/service/tenant_gate/error_source.h"
#include "server/service/tenants/caller.h"

namespace maxsim::service {

// Removes what the caller may not know. A tenant does not see the collections that it may not use, and not the layouts
// of the others, which name groups of servers. A tenant with a filter sees no numbers that would tell how many
// documents and writes other tenants have. If `source` is a router, also replaces error texts, which name groups and
// addresses. An unknown caller sees nothing. A caller that is not a tenant sees everything.
void HideFromTenant(const Caller& caller, ErrorSource source, std::vector<v1::CollectionInfo>& collections);

// Does the same for an answer of GetInfo. Tenants also do not see devices, groups of servers, replicas and the zone.
void HideFromTenant(const Caller& caller, ErrorSource source, v1::GetInfoResponse& info);

}  // namespace maxsim::service
