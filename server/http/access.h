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

  // Returns the caller that a request's token identifies. The caller may be a tenant, whose token allows only some
  // collections. If calls of this scope (search, write or administer) need no token, checks the request with
  // BrowserGuard instead, and returns an unrestricted caller.
  absl::StatusOr<service::Caller> Identify(const Request& request, service::Scope scope) const;

  // Checks a request that tenants may not make.
  absl::Status Check(const Request& request, service::Scope scope) const;

  // Checks a request for facts about the whole server, such as /metrics. If there are no tenants, the request needs no
  // token. If there are tenants, it needs a token that is not a tenant's: the facts would tell one tenant about the
  // others.
  absl::Status CheckServerFacts(const Request& request) const;

  // Lists the collections that the caller may see. Hides their folders unless the request's token is an
  // administrator's.
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
