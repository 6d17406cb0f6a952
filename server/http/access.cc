#include "server/http/access.h"

#include "server/service/hidden_folders.h"
#include "server/service/tenant_gate/tenant_view.h"

namespace maxsim::http {

absl::StatusOr<service::Caller> Access::Identify(const Request& request, service::Scope scope) const {
  if (authenticator_->enabled(scope)) return authenticator_->Identify(request.authorization, scope);
  if (absl::Status status = browser_guard_.Check(request); !status.ok()) return status;
  return service::Caller::Unrestricted();  // everyone may make such requests
}

absl::Status Access::Check(const Request& request, service::Scope scope) const {
  if (authenticator_->enabled(scope)) return authenticator_->Check(request.authorization, scope);
  return browser_guard_.Check(request);
}

absl::Status Access::CheckServerFacts(const Request& request) const {
  if (!authenticator_->has_tenants()) return absl::OkStatus();
  return authenticator_->Check(request.authorization, service::Scope::kSearch);
}

std::vector<v1::CollectionInfo> Access::CollectionsFor(const Request& request, const service::Caller& caller) const {
  std::vector<v1::CollectionInfo> collections = collections_->List();
  service::HideFromTenant(caller, source_, collections);
  if (!authenticator_->Check(request.authorization, service::Scope::kAdmin).ok()) {
    for (v1::CollectionInfo& info : collections) service::HideFolders(info);
  }
  return collections;
}

}  // namespace maxsim::http
