// The caller of a call: a client that may see every document, or a tenant.
#pragma once

#include <memory>
#include <utility>

#include "server/service/tenants/tenant.h"

namespace maxsim::service {

// The sender of a call. Authenticator::Identify makes it from the call's token. A Caller made by default is unknown,
// and the tenant gate refuses its calls: a port that forgets to set the caller then answers no call, instead of showing
// a tenant the documents of others.
class Caller {
 public:
  Caller() = default;
  explicit Caller(std::shared_ptr<const Tenant> tenant) : is_known_(true), tenant_(std::move(tenant)) {}

  // Returns a caller that is not a tenant. Name the reason where you call it.
  static Caller Unrestricted() { return Caller(nullptr); }

  bool is_known() const { return is_known_; }
  // Returns the caller's tenant, or null if it is not one. The tenant lives as long as this object or a copy of it.
  const Tenant* tenant() const { return tenant_.get(); }

 private:
  bool is_known_ = false;
  std::shared_ptr<const Tenant> tenant_;
};

}  // namespace maxsim::service
