/* What comes in. */
#pragma once

#include "descriptors.h"

/* Bytes that a read would find now. */
size_t object_unread(const struct object *object);
