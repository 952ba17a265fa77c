// The theme looks for each word of a query as a prefix, so "a" finds all pages whose title begins with an A, and they
// come first. Its own list of stop words does not apply to prefixes. So leave such words out of the query.
const SMALL = new Set(
  "a an and are as at be by can do does for from get how i if in is it its me my of on or that the then to was what when where which who why with you your"
    .split(" "),
);
const QUERY = 2; // the type of the message with which the theme asks its worker
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === QUERY && typeof message.data === "string") {
    const words = message.data.split(/\s+/).filter((word) => word && !SMALL.has(word.toLowerCase()));
    message = words.length ? { ...message, data: words.join(" ") } : message;
  }
  return post.call(this, message, ...rest);
};
