// Who makes a call: a client who may see every document, or a tenant.
#pragma once

#include <memory>
#include <utility>

#include "server/service/tenants/tenant.h"

namespace maxsim::service {

// Authenticator::Identify makes it from a call's token. One that was not set is unknown: the tenant gate refuses such
// calls. So a port that forgets to say who calls serves nobody, instead of showing a tenant the documents of others.
class Caller {
 public:
  Caller() = default;
  explicit Caller(std::shared_ptr<const Tenant> tenant) : is_known_(true), tenant_(std::move(tenant)) {}

  // Returns a caller that is not a tenant. Name the reason where you call it.
  static Caller Unrestricted() { return Caller(nullptr); }

  bool is_known() const { return is_known_; }
  // Returns null if the caller is not a tenant. It lives as long as this object or a copy.
  const Tenant* tenant() const { return tenant_.get(); }

 private:
  bool is_known_ = false;
  std::shared_ptr<const Tenant> tenant_;
};

}  // namespace maxsim::service
