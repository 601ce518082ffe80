"""The web page: server-rendered, a second face of the model that `top` shows. Everything works without JavaScript."""
