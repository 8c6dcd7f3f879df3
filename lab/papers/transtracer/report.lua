-- What wrk measured, as one line of JSON.
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('{"mean_us":%.1f,"p50_us":%.1f,"p99_us":%.1f,"requests":%d,"duration_us":%d,"errors":%d}\n',
    latency.mean, latency:percentile(50), latency:percentile(99), summary.requests, summary.duration,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
