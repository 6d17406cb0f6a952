// Protects a server without tokens from web pages of other sites. Such a page can make a visitor's browser send
// requests to this server. Two headers reveal such requests:
//
//   Host     In a DNS rebinding attack, a site changes its DNS name to resolve to this server's address. The browser
//            then takes the site's page for this server's own and lets it read answers, but still sends the site's name
//            as Host.
//   Origin   Any page may send a simple POST, though it cannot read the answer. The browser sends the page's site as
//            Origin.
//
// Internal to server/http.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/http/transport/transport.h"

namespace maxsim::http {

// Thread-safe.
class BrowserGuard {
 public:
  // `listening_host` is the host in http.address. `allowed_hosts` are further names of this server, without ports; "*"
  // allows any.
  BrowserGuard(const std::string& listening_host, const std::vector<std::string>& allowed_hosts);

  // Returns PERMISSION_DENIED with the header, its value and the accepted values. Call it only for requests that need
  // no token: pages of other sites cannot send a token that they do not have.
  absl::Status Check(const Request& request) const;

 private:
  absl::Status CheckHost(std::string_view host) const;
  absl::Status CheckOrigin(std::string_view origin, std::string_view host) const;

  std::vector<std::string> own_names_;  // in lower case, as are the names below
  std::vector<std::string> allowed_names_;
  bool allows_all_ = false;
};

// Returns the name or address in a Host header, or in the authority of an origin, in lower case and without the port
// and a final dot.
std::string HostNameOf(std::string_view authority);

// Returns true for IP addresses, and for names that cannot be registered in the public DNS. DNS rebinding needs a name
// whose DNS records the attacker controls, so it cannot use these.
bool IsPrivateName(std::string_view name);

}  // namespace maxsim::http
