// node --require …/dist/register.js app.js; one file that is there exactly if the SDK is built.
import './auto';
