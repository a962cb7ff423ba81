#include "told_types.hpp"

#include "breach.hpp"

namespace verbatim::objects {

ToldTypes::ToldTypes() {
    classes_->set_layouts(this, [](const void* types, std::uint64_t fingerprint) {
        return static_cast<const ToldTypes*>(types)->layout(fingerprint);
    });
}

ToldTypes::~ToldTypes() { classes_->set_layouts(nullptr, nullptr); }

void ToldTypes::take_layout(std::span<const std::byte> payload) {
    wire::LayoutPart head;
    if (!wire::parse(payload, head) || head.total_bytes > wire::kMaxLayoutBytes || payload.empty())
        throw Breach{"a layout of the wrong length"};
    if (head.position == 0) {
        partial_ = head;
        partial_text_.clear();
    }
    if (head.fingerprint != partial_.fingerprint || head.total_bytes != partial_.total_bytes ||
        head.position != partial_text_.size() ||
        payload.size() > head.total_bytes - partial_text_.size())
        throw Breach{"a layout whose parts do not follow each other"};
    partial_text_.append(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (partial_text_.size() < head.total_bytes) return;
    layouts_.keep(head.fingerprint, partial_text_);
    partial_ = {};
    partial_text_ = {};
}

void ToldTypes::take_class(std::span<const std::byte> payload) {
    wire::Class head;
    if (!wire::parse(payload, head) ||
        payload.size() != std::size_t{head.name_bytes} + head.file_bytes)
        throw Breach{"an announcement of a class of the wrong length"};
    const std::string_view text(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (!classes_->add(head.number, head.fingerprint, text.substr(0, head.name_bytes),
                       text.substr(head.name_bytes)))
        throw Breach{"a wrong announcement of a class"};
}

}  // namespace verbatim::objects
