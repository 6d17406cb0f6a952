#include "server/service/page/page.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/service/call/status.h"

namespace maxsim::service {

Page PageOf(const v1::RerankRequest& request, const RequestLimits& limits) {
  Page page{.offset = request.offset(), .top_k = request.top_k() == 0 ? limits.default_top_k : request.top_k()};
  if (request.has_min_score()) page.min_score = request.min_score();
  return page;
}

absl::Status CheckPage(const v1::RerankRequest& request, const RequestLimits& limits) {
  if (request.top_k() > limits.max_top_k) {
    return InvalidField(
        "top_k", absl::StrCat("is ", request.top_k(), "; must be at most ", limits.max_top_k, " (limits.max_top_k)"),
        {limits.max_top_k, request.top_k(), "limits.max_top_k"});
  }
  const Page page = PageOf(request, limits);
  if (page.num_ranked() > limits.max_top_k) {
    return InvalidField("offset",
                        absl::StrCat("is ", page.offset, ", so offset + top_k is ", page.num_ranked(),
                                     "; must be at most ", limits.max_top_k, " (limits.max_top_k)"),
                        {limits.max_top_k, page.num_ranked(), "limits.max_top_k"});
  }
  if (!std::isfinite(page.min_score) && request.has_min_score()) {
    return InvalidField("min_score", absl::StrCat("is ", page.min_score, "; must be finite"));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::service
