#include "server/http/transport/connections.h"

#include <algorithm>
#include <utility>

#include "server/http/transport/connection.h"

namespace maxsim::http {

PeerKey PeerKeyOf(const boost::asio::ip::address& address) {
  PeerKey key = {};
  if (address.is_v4()) {
    const auto bytes = address.to_v4().to_bytes();
    std::copy(bytes.begin(), bytes.end(), key.begin());
    return key;
  }
  const boost::asio::ip::address_v6 wide = address.to_v6();
  const auto bytes = wide.to_bytes();
  // An IPv4 client has an IPv4-mapped address here, because the socket takes both. Its IPv4 address is the last 4
  // bytes.
  const size_t begin = wide.is_v4_mapped() ? 12 : 0;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(begin), begin == 0 ? 8 : 4, key.begin());
  return key;
}

Connections::Connections(TransportOptions options, Application* application, std::function<void()> on_removed)
    : options_(std::move(options)), application_(application), on_removed_(std::move(on_removed)) {}

Connections::Position Connections::Add(const PeerKey& key, std::shared_ptr<Connection> connection) {
  List fresh;
  fresh.push_back({std::move(connection), next_turn_++});
  Peer& peer = peers_[key];
  const Position position = fresh.begin();
  peer.idle.splice(peer.idle.end(), fresh);
  ++peer.num_open;
  ++num_idle_;
  if (peer.idle.size() > static_cast<size_t>(options_.max_idle_connections_per_peer)) {
    const std::shared_ptr<Connection> oldest = peer.idle.front().connection;
    oldest->Close();
  } else if (num_idle_ > static_cast<size_t>(options_.max_idle_connections)) {
    DropIdle();
  }
  Report();
  return position;
}

void Connections::Remove(const PeerKey& key, Position position) {
  const auto peer = peers_.find(key);
  peer->second.idle.erase(position);
  if (--peer->second.num_open == 0) peers_.erase(peer);
  --num_idle_;
  Report();
  on_removed_();
}

bool Connections::DropSlowBody(const Connection* except) {
  // busy_ is sorted by when the connections' bodies began. So the first connection that is slow is the slowest one.
  const auto slow = std::find_if(busy_.begin(), busy_.end(), [&](const Entry& entry) {
    return entry.connection.get() != except && entry.connection->ReceivingFor() > options_.slow_body;
  });
  if (slow == busy_.end()) return false;
  const std::shared_ptr<Connection> connection = slow->connection;
  connection->GiveWay();
  return true;
}

bool Connections::HoldBodyBytes(uint64_t size, const Connection* holder) {
  while (size > options_.max_body_memory - body_bytes_) {
    if (!DropSlowBody(holder)) return false;
  }
  body_bytes_ += size;
  return true;
}

bool Connections::TakeSlot(const PeerKey& key, Position position) {
  if (busy_.size() >= static_cast<size_t>(options_.max_requests) && !DropSlowBody(nullptr)) return false;
  busy_.splice(busy_.end(), peers_.find(key)->second.idle, position);
  --num_idle_;
  return true;
}

void Connections::ReturnSlot(const PeerKey& key, Position position) {
  List& idle = peers_.find(key)->second.idle;
  position->turn = next_turn_++;
  idle.splice(idle.end(), busy_, position);
  ++num_idle_;
}

void Connections::DropIdle() {
  const auto gives_way_later = [](const auto& a, const auto& b) {
    const List& left = a.second.idle;
    const List& right = b.second.idle;
    if (left.size() != right.size()) return left.size() < right.size();
    return !left.empty() && left.front().turn > right.front().turn;
  };
  const auto most = std::max_element(peers_.begin(), peers_.end(), gives_way_later);
  if (most == peers_.end() || most->second.idle.empty()) return;
  const std::shared_ptr<Connection> oldest = most->second.idle.front().connection;
  oldest->Close();
}

std::vector<std::shared_ptr<Connection>> Connections::All() const {
  std::vector<std::shared_ptr<Connection>> all;
  all.reserve(size());
  for (const Entry& entry : busy_) all.push_back(entry.connection);
  for (const auto& [key, peer] : peers_) {
    for (const Entry& entry : peer.idle) all.push_back(entry.connection);
  }
  return all;
}

}  // namespace maxsim::http
