/* State of a thread besides its turn. */
#pragma once

/* Runs the destructors of the current thread's values. */
void thread_values_destroy(void);
