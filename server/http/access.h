// Decides what a client of the HTTP port may do and see. Internal to server/http.
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/http/transport/browser_guard.h"
#include "server/http/transport/transport.h"
#include "server/service/api.h"
#include "server/service/call/auth.h"
#include "server/service/tenant_gate/error_source.h"

namespace maxsim::http {

// Thread-safe.
class Access {
 public:
  // `authenticator` and `collections` must outlive the object. `source` says whether `collections` is a router's.
  Access(BrowserGuard browser_guard, const service::Authenticator* authenticator,
         const service::CollectionApi* collections, service::ErrorSource source)
      : browser_guard_(std::move(browser_guard)),
        authenticator_(authenticator),
        collections_(collections),
        source_(source) {}

  // Returns the caller of a request that tenants may make, too, by its token. If no token is needed, checks instead
  // that the request does not come from a web page of another site.
  absl::StatusOr<service::Caller> Identify(const Request& request, service::Scope scope) const;

  // Checks a request that tenants may not make.
  absl::Status Check(const Request& request, service::Scope scope) const;

  // Checks a request for facts about the whole server that needs no token, such as /metrics. If there are tenants, it
  // needs a token that is not a tenant's: these facts tell about the others.
  absl::Status CheckServerFacts(const Request& request) const;

  // Lists the collections in the form in which the caller of the request may see them.
  std::vector<v1::CollectionInfo> CollectionsFor(const Request& request, const service::Caller& caller) const;

  // Returns whether searches need a token.
  bool needs_token() const { return authenticator_->enabled(service::Scope::kSearch); }

 private:
  const BrowserGuard browser_guard_;
  const service::Authenticator* const authenticator_;
  const service::CollectionApi* const collections_;
  const service::ErrorSource source_;
};

}  // namespace maxsim::http
