// Protects a server without tokens from web pages of other sites, which can make a visitor's browser send requests to
// it. Two headers tell such requests apart:
//
//   Host     A page whose site's DNS answer changes to this server's address (DNS rebinding) counts as the server's own
//            page, and may read answers. But the browser still sends the site's name as Host.
//   Origin   Any page may send a simple POST, without reading the answer. The browser sends the page's site as Origin.
//
// It is internal to server/http.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/http/transport.h"

namespace maxsim::http {

// The class is thread-safe.
class BrowserGuard {
 public:
  // `listening_host` is the host of http.address. `allowed_hosts` are further names, without ports; "*" is any name.
  BrowserGuard(const std::string& listening_host, const std::vector<std::string>& allowed_hosts);

  // PERMISSION_DENIED with the header, its value and what is accepted. Only for requests that need no token: pages of
  // other sites have none.
  absl::Status Check(const Request& request) const;

 private:
  absl::Status CheckHost(std::string_view host) const;
  absl::Status CheckOrigin(std::string_view origin, std::string_view host) const;

  std::vector<std::string> own_names_;  // in lower case, as the next
  std::vector<std::string> allowed_names_;
  bool allows_all_ = false;
};

// Returns the name or address of a Host header or of an origin's authority: without the port and a dot at the end, in
// lower case.
std::string HostNameOf(std::string_view authority);

// Returns true for names that nobody can register in the public DNS, and for IP addresses, which need no DNS: a page of
// another site cannot have one of them as its own name.
bool IsPrivateName(std::string_view name);

}  // namespace maxsim::http
