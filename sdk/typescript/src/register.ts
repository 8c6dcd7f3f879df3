// Loaded by ../register.js. Tools check this file to find out whether the SDK has been built.
import './auto';
