package dev.faultloom.wire;

/**
 * The reason why an envelope or a history was rejected: one of the stable codes of {@code spec/errors.json}, in the
 * order of the checks. Instances are shared and have no stack trace, so that rejecting costs no more than accepting.
 */
public final class WireError extends Exception {
    public static final WireError OVERSIZED = new WireError("oversized");
    public static final WireError MALFORMED = new WireError("malformed");
    public static final WireError UNSUPPORTED_VERSION = new WireError("unsupported_version");
    public static final WireError UNSIGNED = new WireError("unsigned");
    public static final WireError UNKNOWN_KEY = new WireError("unknown_key");
    public static final WireError BAD_SIGNATURE = new WireError("bad_signature");
    public static final WireError WRONG_ENVIRONMENT = new WireError("wrong_environment");
    public static final WireError EXPIRED = new WireError("expired");
    public static final WireError EXPIRY_TOO_FAR = new WireError("expiry_too_far");
    public static final WireError PLAN_NOT_PERMITTED = new WireError("plan_not_permitted");
    public static final WireError TOO_MANY_FAULTS = new WireError("too_many_faults");
    public static final WireError UNKNOWN_FAULT = new WireError("unknown_fault");
    public static final WireError REPLAYED = new WireError("replayed");
    public static final WireError ENVELOPE_TOO_LARGE = new WireError("envelope_too_large");

    private static final long serialVersionUID = 1;

    private final String code;

    private WireError(String code) {
        super("faultloom: " + code, null, false, false);
        this.code = code;
    }

    /** The code in {@code spec/errors.json}. */
    public String code() {
        return code;
    }
}
