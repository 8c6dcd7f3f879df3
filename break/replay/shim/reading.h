/* Input. */
#pragma once

#include "objects.h"

/* How many bytes a read would return now. */
size_t object_unread(const struct object *object);
