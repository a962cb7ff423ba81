// A link use keeps the object link of a connection, also where the connection ends meanwhile. It is
// one count of the lane's thread: shared ownership would cost each operation several locked
// instructions. Threads: the lane's.
#pragma once

#include <verbatim/core/connection.hpp>

namespace verbatim::objects {

class ObjectLink;

class LinkUse {
  public:
    // Makes the link at its first use. Throws std::bad_alloc.
    explicit LinkUse(Connection& connection);
    explicit LinkUse(ObjectLink& link);
    ~LinkUse();
    LinkUse(const LinkUse&) = delete;
    LinkUse& operator=(const LinkUse&) = delete;

    ObjectLink& operator*() const noexcept { return *link_; }
    ObjectLink* operator->() const noexcept { return link_; }

  private:
    void begin();
    ObjectLink* link_;
};

}  // namespace verbatim::objects
