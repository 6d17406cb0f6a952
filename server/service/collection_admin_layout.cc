// Sets the layouts of live collections.
#include <memory>
#include <utility>
#include <vector>

#include "base/text.h"
#include "server/observability/log_event.h"
#include "server/service/collection_admin.h"
#include "server/service/layout/layout_message.h"

namespace maxsim::service {

absl::StatusOr<v1::SlotLayout> CollectionAdmin::SetLayout(const v1::SetLayoutRequest& request, const ChangeContext&) {
  absl::StatusOr<std::vector<collection::SlotOwner>> owners = OwnersOf(request);
  if (!owners.ok()) return owners.status();
  const absl::StatusOr<std::shared_ptr<store::LiveDocuments>> live = store_->FindLive(request.name());
  if (!live.ok()) return live.status();
  const absl::StatusOr<collection::SlotLayout> layout =
      (*live)->SetLayout(*std::move(owners), request.expected_revision());
  if (absl::IsFailedPrecondition(layout.status())) {
    return Prefix(Cat("collection ", request.name(), ": "), layout.status());
  }
  if (!layout.ok()) return layout.status();
  log::Write(spdlog::level::info, "layout_set", {{"name", request.name()}, {"revision", layout->revision}});
  return ToProto(*layout);
}

}  // namespace maxsim::service
