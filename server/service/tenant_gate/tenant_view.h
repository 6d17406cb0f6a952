// Hides facts about the server and its collections from tenants.
#pragma once

#include <vector>

#include "maxsim/v1/rerank.pb.h"
#include "server/service/tenant_gate/error_source.h"
#include "server/service/tenants/caller.h"

namespace maxsim::service {

// Removes what the caller may not know: all collections that are not its tenant's, the layouts of the others, which
// name groups of servers, and, if the tenant has a filter, all numbers of the others, which would tell how many
// documents and writes other tenants have. If `source` is a router, also replaces the texts that say what is wrong with
// a collection, which name groups of servers and addresses. An unknown caller may know nothing. Changes nothing for a
// caller that is not a tenant.
void HideFromTenant(const Caller& caller, ErrorSource source, std::vector<v1::CollectionInfo>& collections);

// Does the same for an answer of GetInfo. Tenants also see no devices, groups of servers and replicas.
void HideFromTenant(const Caller& caller, ErrorSource source, v1::GetInfoResponse& info);

}  // namespace maxsim::service
