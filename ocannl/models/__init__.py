"""Open language models and their kin, read from folders as `transformers` saves them."""

from ocannl.models.chats import chat_prompt
from ocannl.models.loading import load
from ocannl.models.model import Model
from ocannl.program.mistakes.misuse import explain_all

__all__ = ["Model", "chat_prompt", "load"]

explain_all(__all__, globals())
